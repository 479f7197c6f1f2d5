"""Merging: new rows against history, as changelog rows of a root dataset."""
