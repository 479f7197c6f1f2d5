"""Datasets in folders and buckets elsewhere: their layout over any store of objects."""
