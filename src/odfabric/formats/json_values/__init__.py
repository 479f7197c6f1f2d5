"""JSON: its canonical form, columns and rows as JSON."""
