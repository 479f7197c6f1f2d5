"""Decisions about metadata chains.

What one says, what may be appended, how to walk and compare them.
"""
