"""Users' files and raw queries: read, preprocess, merge."""
