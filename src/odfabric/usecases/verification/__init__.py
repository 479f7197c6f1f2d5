"""Verify what a dataset claims: chain, objects, transactions."""
