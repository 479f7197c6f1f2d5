"""Pages of accounts: one's own profile, sessions and tokens, and organisations."""
