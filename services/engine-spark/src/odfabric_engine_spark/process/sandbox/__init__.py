"""The engine's second wall: the operating system, for the day when a query gets through the gate. Owns its walls and what they leave visible."""
