"""Redis, or a server that speaks as Redis does: it wakes and counts, and nothing is lost with it."""
