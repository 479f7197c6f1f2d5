"""Rewrites after which no result depends on the order of rows."""
