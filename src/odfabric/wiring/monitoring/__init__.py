"""What a node measures and shows of itself."""
