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
    history,
    home,
    lineage,
    opening,
    organisations,
    rows,
    sharing,
    sql,
)

PAGES = tuple(
    module.router
    for module in (
        *(files, opening, home, sql, account, account_tokens, organisations),
        *(admin, admin_accounts, admin_audit, admin_tokens),
        *(dataset, rows, history, lineage, sharing),
    )
)
"""Routers of all pages, those with fixed first parts before `/{account}`."""
