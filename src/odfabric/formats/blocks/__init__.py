"""Metadata blocks and engine contracts as FlatBuffers."""
