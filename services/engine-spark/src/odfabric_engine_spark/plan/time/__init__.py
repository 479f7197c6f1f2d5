"""Event time in plans: windows over it, and filters that wait for the watermark."""
