"""Ports that fail on purpose: seeded faults for tests, named crash points for drills."""
