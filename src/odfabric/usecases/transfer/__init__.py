"""Datasets between nodes, folders and buckets: pull copies, push, serve objects to peers."""
