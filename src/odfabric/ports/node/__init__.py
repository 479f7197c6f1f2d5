"""Ports: the node itself: clock, keys, sealing, surroundings."""
