"""Accumulators: the statistics that are stored of each group."""
