"""Changes of a transform: whether two are equivalent, and the transaction after a change."""
