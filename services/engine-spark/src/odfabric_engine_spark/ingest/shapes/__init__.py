"""Reading shapefiles."""
