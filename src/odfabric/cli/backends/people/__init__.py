"""What commands about people ask of a workspace or a node, and the credentials by which they reach a node."""
