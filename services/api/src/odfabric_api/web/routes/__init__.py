"""Pages by screen. Each calls use cases as the REST routes do, and nothing else."""

from __future__ import annotations

from odfabric_api.web.routes import (
    dataset,
    files,
    history,
    home,
    jobs,
    lineage,
    new,
    new_file,
    new_sql,
    opening,
    push,
    rows,
    settings,
    sql,
    subscriptions,
)

PAGES = tuple(
    module.router
    for module in (
        *(files, opening, home, sql, jobs, new, new_file, new_sql),
        *(dataset, rows, history, lineage, push, subscriptions, settings),
    )
)
"""Routers of all pages, those with fixed first parts before `/{account}`."""
