"""Verbs made of several groups of a node's verbs, for services."""
