"""The worker service: runs durable jobs and relays the outbox."""
