"""The bytes of head logs: canonical lines, and what is signed of them."""
