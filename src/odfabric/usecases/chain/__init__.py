"""The chain of a dataset: the one seam that moves heads, and what reads blocks."""
