"""Nouns of the specification: frozen dataclasses on the standard library alone."""
