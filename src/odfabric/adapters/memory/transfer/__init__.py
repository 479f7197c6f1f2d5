"""Repositories in memory."""
