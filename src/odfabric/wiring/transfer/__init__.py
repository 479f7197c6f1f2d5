"""Datasets between this node and others, bound to its ports."""
