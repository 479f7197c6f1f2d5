"""Pages that make a dataset: from a manifest, a file or a query."""
