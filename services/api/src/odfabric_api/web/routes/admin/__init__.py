"""Pages for the admins of the node."""
