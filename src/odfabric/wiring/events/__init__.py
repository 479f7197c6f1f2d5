"""What is sent when heads move: subscriptions, deliveries, cursors."""
