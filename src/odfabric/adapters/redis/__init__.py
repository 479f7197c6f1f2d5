"""Redis, or a server that speaks as Redis does: it wakes, and remembers nothing."""
