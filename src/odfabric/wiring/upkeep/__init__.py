"""What workers and operators do to keep a node in order."""
