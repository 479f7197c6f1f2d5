"""Changes of a transform: whether two say the same, and the way from the rows of one to those of the other."""
