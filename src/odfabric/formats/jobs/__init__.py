"""Requests of jobs: one reader and one writer for each kind, of the texts that job rows keep."""
