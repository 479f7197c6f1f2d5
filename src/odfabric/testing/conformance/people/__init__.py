"""Suites of ports: accounts and what belongs to them."""
