"""Checks of what surrounds a node, each with a finding and a remedy; they run when the node cannot."""
