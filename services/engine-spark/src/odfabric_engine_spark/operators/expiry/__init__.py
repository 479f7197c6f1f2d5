"""Late data and state expiry: what is late, final, and forgotten."""
