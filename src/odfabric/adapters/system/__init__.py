"""Time and chance of the operating system."""
