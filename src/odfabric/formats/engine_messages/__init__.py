"""Messages between coordinator and engine."""
