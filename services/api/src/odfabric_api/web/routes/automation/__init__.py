"""Pages of what runs by itself: flows, jobs, webhooks."""
