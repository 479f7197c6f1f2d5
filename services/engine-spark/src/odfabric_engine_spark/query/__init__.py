"""Users' read-only queries."""
