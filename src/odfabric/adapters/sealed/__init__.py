"""Ports that seal secrets on their way to the ports that store them."""
