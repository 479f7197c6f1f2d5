"""What a node reads from outside: polled sources, URLs, datasets of other nodes."""
