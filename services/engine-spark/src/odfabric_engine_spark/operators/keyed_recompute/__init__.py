"""Recomputes a query over the touched keys, before and after a transaction."""
