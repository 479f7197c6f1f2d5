"""Rewrite history on purpose: reset, compact, recompute; and watermarks."""
