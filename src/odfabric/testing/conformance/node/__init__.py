"""Suites of ports: the node itself: clock, keys, sealing, surroundings."""
