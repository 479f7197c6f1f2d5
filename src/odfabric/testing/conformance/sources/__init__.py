"""Suites of ports: sources: what is fetched from outside, and what is kept of it."""
