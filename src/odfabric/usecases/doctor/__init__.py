"""Checks of what surrounds a node, each with a finding and a remedy.

They run when the node cannot.
"""
