"""Ports over those that store secrets: what passes through them is sealed on one side."""
