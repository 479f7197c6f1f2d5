"""Decide when flows and duties are due."""
