"""Parquet as bytes: footers, pages, claims, reading in bounds."""
