"""Why records are there: derivations, traces through datasets, their answers."""
