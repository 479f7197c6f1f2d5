"""Heads of record in the objects: `refs/head`, replaced by condition, for nodes that share a bucket and no database."""
