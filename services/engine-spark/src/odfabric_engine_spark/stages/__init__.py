"""Staged queries: joins, windows, nested aggregates and all else that needs rows of earlier transactions by key."""
