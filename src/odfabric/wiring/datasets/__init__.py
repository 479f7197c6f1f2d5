"""Datasets and their rows, bound to a node's ports."""
