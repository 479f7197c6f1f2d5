"""What the engine keeps from one transaction to the next: sorted runs of rows by key, and the checkpoint files that hold them."""
