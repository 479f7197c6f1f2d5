"""Values of consumers: events, cursors, subscriptions."""
