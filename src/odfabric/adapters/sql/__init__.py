"""Heads, catalog, outbox, subscriptions and jobs in a SQL database.

SQLite embedded, PostgreSQL in production.
"""
