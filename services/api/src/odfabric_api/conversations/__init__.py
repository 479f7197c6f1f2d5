"""Conversations of the Smart Transfer Protocol as sockets see them."""
