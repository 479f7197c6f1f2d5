"""The circuit of a query: what its rows are made of, and reading that backwards."""
