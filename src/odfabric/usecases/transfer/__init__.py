"""Datasets between nodes: pull copies, serve objects to peers."""
