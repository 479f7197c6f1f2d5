"""The metadata of all tables, for who looks at the whole database."""

from __future__ import annotations

from odfabric.adapters.sql.tables import (
    datasets,
    flows,
    head_logs,
    jobs,
    node,
    people,
    repositories,
    subscriptions,
    variables,
)
from odfabric.adapters.sql.tables.schema import metadata

__all__ = [
    "datasets",
    "flows",
    "head_logs",
    "jobs",
    "metadata",
    "node",
    "people",
    "repositories",
    "subscriptions",
    "variables",
]
