"""Session windows: gaps, and sessions that are open at a watermark."""
