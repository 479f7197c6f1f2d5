"""Suites of ports: consumers: cursors, subscriptions, their deliveries."""
