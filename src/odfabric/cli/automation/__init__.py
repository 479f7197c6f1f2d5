"""Commands about what a node does by itself: flows, and webhooks."""
