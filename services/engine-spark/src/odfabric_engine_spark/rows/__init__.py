"""Changelog rows: read from slices, mapped, and written to slices."""
