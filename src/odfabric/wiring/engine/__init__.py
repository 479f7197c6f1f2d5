"""Engines of a node: started when needed, in containers, or elsewhere."""
