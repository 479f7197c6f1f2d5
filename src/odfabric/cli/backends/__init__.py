"""What commands act on: a node by REST, or a workspace."""
