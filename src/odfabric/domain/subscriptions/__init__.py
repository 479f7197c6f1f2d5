"""Decide on events, deliveries and positions of consumers."""
