"""Changes of a transform: equivalence, and the transaction after a change."""
