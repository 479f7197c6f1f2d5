"""In memory: the node itself: clock, keys, sealing, surroundings."""
