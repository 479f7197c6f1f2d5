"""In memory: accounts and what belongs to them."""
