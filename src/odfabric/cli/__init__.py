"""The `odf` command: over the use cases (local workspace) or over REST (a node)."""
