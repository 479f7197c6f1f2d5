"""Temporal (as-of) joins: each row meets the last version before it."""
