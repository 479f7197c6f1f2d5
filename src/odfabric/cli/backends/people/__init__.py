"""Commands about people: what they ask of a workspace or node, and credentials."""
