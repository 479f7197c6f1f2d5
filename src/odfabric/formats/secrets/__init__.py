"""Secrets as texts: tokens, key files, sealed values."""
