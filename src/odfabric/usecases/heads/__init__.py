"""Verbs of signed heads: write the log, publish it, judge that of others."""
