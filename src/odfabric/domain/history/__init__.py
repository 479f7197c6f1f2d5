"""Rewriting history on purpose: what compaction makes of a chain."""
