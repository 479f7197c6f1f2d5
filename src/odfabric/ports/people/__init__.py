"""Ports: accounts and what belongs to them."""
