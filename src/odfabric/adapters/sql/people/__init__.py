"""In SQL: accounts and what belongs to them."""
