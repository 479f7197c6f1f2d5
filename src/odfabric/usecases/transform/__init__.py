"""Derivative datasets: judge, divide and run their transforms."""
