"""Repositories elsewhere, and what a dataset is called there."""
