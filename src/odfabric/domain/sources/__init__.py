"""Decide what a polling source fetches, remembers and may be."""
