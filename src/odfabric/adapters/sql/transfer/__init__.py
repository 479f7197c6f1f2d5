"""Repositories in SQL."""
