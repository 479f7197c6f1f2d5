"""Slices: schema, logical hash, Parquet form, rows of a state."""
