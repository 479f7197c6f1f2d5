"""Readers: bytes of users as rows, every value exact or refused with its place."""
