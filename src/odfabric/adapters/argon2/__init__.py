"""Hashing of passwords with Argon2id."""
