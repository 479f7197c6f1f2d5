"""Verbs that move datasets between nodes, folders and buckets."""
