"""Decisions, pure: no effects, no clock, no chance."""
