"""Conversations over WebSockets."""
