"""Screens of one dataset."""
