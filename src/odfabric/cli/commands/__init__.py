"""Commands of `odf` about datasets, nodes and their care."""
