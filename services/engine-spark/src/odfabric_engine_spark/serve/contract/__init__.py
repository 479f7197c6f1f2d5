"""The contract `engine.Engine`, for coordinators of the reference implementation."""
