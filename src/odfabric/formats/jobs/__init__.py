"""Requests of jobs as job rows keep them: one reader and one writer for each kind."""
