"""The operating system sandbox, behind the gate for queries.

It is the engine's second wall, for the day when a query gets through. Owns its walls and what they leave visible.
"""
