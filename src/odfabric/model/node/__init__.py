"""Values of the node: findings, surroundings, spans."""
