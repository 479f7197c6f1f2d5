"""Heads of record in the objects: `refs/head`, replaced by condition.

For nodes that share a bucket and no database.
"""
