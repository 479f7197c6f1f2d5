"""Transfers between nodes, folders and buckets: direction, place and name."""
