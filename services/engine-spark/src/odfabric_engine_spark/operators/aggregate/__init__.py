"""Aggregates over groups whose accumulators are kept in state."""
