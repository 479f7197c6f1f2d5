"""Aggregate functions as a plan has them."""
