"""Containers, run by the command of an OCI engine."""
