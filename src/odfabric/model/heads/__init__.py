"""Signed heads: the log of head moves, and what was seen of it."""
