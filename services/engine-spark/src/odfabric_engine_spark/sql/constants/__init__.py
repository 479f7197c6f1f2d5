"""Constants of a query: those that fail, are too large, or name the time of the run."""
