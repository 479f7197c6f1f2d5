"""Code generated from proto/; never edited by hand."""
