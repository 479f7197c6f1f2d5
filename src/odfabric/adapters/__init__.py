"""Ports implemented, one folder per technology."""
