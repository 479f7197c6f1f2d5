"""Datasets in remote folders and buckets: their layout over any object store."""
