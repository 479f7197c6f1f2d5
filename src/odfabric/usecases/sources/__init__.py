"""Fetching from sources other than HTTP and folders."""
