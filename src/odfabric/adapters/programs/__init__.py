"""Programs of the operator, run behind walls."""
