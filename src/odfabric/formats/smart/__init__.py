"""Texts and archives of the Smart Transfer Protocol."""
