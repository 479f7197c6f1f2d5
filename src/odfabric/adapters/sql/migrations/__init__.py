"""Migrations of the node's database, run by Alembic; they ship with the package."""
