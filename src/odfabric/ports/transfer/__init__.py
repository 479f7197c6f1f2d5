"""Datasets elsewhere: repositories, and places that datasets are written to."""
