"""Provenance of records: why, where, how, and what triggered them."""
