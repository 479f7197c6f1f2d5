"""Identifiers of ODF: hashes, DIDs, references, paths of objects."""
