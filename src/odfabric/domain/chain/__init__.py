"""Decisions about metadata chains: what one says, what may be appended, how to walk and compare them."""
