"""Ports on the storage library: the only place where the two meet."""
