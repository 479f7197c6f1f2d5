"""The odf command: thin over the use cases (local workspace) and over REST (a node)."""
