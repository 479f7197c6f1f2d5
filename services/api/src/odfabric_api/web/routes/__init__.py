"""Pages by screen. Each calls use cases as the REST routes do, and nothing else."""

from __future__ import annotations

from odfabric_api.web.routes import (
    account,
    account_tokens,
    admin,
    admin_accounts,
    admin_audit,
    admin_tokens,
    dataset,
    files,
    flows,
    history,
    home,
    jobs,
    lineage,
    new,
    new_file,
    new_sql,
    opening,
    organisations,
    push,
    rows,
    settings,
    sharing,
    sql,
    subscriptions,
)

PAGES = tuple(
    module.router
    for module in (
        *(files, opening, home, sql, jobs, flows, new, new_file, new_sql),
        *(account, account_tokens, organisations),
        *(admin, admin_accounts, admin_audit, admin_tokens),
        *(dataset, rows, history, lineage, push, subscriptions, settings, sharing),
    )
)
"""Routers of all pages, those with fixed first parts before `/{account}`."""
