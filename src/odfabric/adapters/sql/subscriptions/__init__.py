"""In SQL: consumers: cursors, subscriptions, their deliveries."""
