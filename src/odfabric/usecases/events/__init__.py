"""Consequences of commits and jobs, drawn from the outbox."""
