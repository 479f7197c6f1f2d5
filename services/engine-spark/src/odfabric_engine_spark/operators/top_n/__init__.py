"""Top-N: reads only the first rows of each key."""
