"""Tracing records through datasets: decisions, pure."""
