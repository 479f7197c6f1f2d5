"""Window functions over bounded ROWS and RANGE frames."""
