"""Spark engine service: everything that touches rows; no network, no database."""
