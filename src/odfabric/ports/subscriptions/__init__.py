"""Ports: consumers: cursors, subscriptions, their deliveries."""
