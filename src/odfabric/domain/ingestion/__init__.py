"""Decide what a push or a file becomes: plan, contract, counts."""
