"""Rewrites of event-time joins: as-of joins and outer interval joins."""
