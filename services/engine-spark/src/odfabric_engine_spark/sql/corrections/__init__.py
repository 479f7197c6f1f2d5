"""What the author of a refused query probably meant."""
