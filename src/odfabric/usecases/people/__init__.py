"""Verbs about people: accounts, organisations, invitations, credentials, sharing."""
