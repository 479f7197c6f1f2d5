"""One call of the engine: its folder, its memory limit, and how it is interrupted."""
