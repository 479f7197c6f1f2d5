"""Incremental operators, one folder for each class."""
