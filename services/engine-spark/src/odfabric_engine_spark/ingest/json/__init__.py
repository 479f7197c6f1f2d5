"""Reading JSON and GeoJSON."""
