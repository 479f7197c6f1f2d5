"""Texts and Arrow values as values of slices."""
