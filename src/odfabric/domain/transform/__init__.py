"""Decide what a transform reads next and how it may change."""
