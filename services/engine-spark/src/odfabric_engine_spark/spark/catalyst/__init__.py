"""Catalyst, Spark's query planner: parsing, reading and rebuilding plans."""
