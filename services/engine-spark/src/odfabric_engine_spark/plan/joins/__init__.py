"""Rewrites of joins over event times: temporal (as-of) joins and outer interval joins."""
