"""Rows for consumers: tails, changes, cursors, profiles."""
