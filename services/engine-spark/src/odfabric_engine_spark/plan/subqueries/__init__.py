"""Rewrites of subqueries to joins."""
