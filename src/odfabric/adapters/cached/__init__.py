"""Stores behind a nearer one."""
