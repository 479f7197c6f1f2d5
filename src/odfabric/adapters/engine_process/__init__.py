"""Starts and finds the one engine process of a workspace."""
