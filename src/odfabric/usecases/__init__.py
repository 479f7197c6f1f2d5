"""Verbs of the node, one file each; they take ports and perform effects in order."""
