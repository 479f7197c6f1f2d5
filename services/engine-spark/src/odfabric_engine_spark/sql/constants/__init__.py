"""Constants of a query: failing ones, large ones, names of the run's time."""
