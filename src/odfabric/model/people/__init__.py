"""Values of accounts: credentials, audit, sessions, variables."""
