"""Executors on a standalone cluster, and the tasks that run there."""
