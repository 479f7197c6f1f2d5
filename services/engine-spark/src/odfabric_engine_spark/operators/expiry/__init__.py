"""Late data and state expiry: what is too late, what is final, what leaves the state."""
