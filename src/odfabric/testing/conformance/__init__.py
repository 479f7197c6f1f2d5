"""One suite for each port; an adapter runs it by a subclass with a fixture."""
