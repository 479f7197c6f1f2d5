"""Reads of the stored and new rows of the keys that a transaction touches."""
