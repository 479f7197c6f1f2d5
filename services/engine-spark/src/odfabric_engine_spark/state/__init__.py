"""State of transforms: sorted runs of keyed rows, and their checkpoints."""
