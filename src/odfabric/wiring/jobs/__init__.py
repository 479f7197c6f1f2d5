"""Requests that become jobs, and what runs them."""
