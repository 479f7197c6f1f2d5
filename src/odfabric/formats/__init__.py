"""Bytes and texts to values and back, deterministic."""
