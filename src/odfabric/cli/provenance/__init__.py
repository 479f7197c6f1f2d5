"""`odf why`: why records are there, for people."""
