"""How those commands reach a workspace or a node."""
