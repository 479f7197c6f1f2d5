"""Interval joins: rows meet within a span of event times."""
