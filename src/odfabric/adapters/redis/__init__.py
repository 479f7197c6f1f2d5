"""Redis, or a compatible server: it wakes and counts, and nothing is lost with it."""
