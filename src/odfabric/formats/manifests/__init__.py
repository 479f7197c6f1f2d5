"""Manifests in YAML, and the schemas and values in them."""
