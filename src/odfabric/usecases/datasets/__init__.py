"""Datasets as people see them: made, described, renamed, found."""
