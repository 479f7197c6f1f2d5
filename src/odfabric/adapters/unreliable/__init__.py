"""Ports that fail on purpose: seeded faults for tests, crash points for drills."""
