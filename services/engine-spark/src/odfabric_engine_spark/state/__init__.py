"""State of transforms: sorted runs of rows by key, and the checkpoints that hold them."""
