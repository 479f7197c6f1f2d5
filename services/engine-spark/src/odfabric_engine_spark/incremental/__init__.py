"""Incremental SQL: the next slice of a derivative dataset from the next rows of its inputs."""
