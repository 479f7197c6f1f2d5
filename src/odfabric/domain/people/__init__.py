"""Decide on names, rights and sign-ins."""
