"""Routes of what a dataset was: history rewritten on purpose, and who vouches."""
