"""Routes of provenance."""
