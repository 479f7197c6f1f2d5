"""Command line for people and rights.

Logins of this user, accounts, organisations, tokens, sharing, administration.
"""
