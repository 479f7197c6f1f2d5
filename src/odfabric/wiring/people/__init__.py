"""Accounts, sign-in and the audit log, bound to a node's ports."""
