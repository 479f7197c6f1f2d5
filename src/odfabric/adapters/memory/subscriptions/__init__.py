"""In memory: consumers: cursors, subscriptions, their deliveries."""
