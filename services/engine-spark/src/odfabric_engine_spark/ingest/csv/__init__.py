"""Reading CSV."""
