"""Pages by subject. Each calls use cases as the REST routes do, and nothing else."""

from __future__ import annotations

from odfabric_api.web.routes import files, home, opening, sql
from odfabric_api.web.routes.account import organisations, profile
from odfabric_api.web.routes.account import tokens as account_tokens
from odfabric_api.web.routes.admin import accounts, audit, node, repositories
from odfabric_api.web.routes.admin import tokens as admin_tokens
from odfabric_api.web.routes.automation import flows, jobs, subscriptions
from odfabric_api.web.routes.dataset import (
    copies,
    history,
    lineage,
    overview,
    push,
    rewriting,
    rows,
    settings,
    sharing,
    variables,
    why,
)
from odfabric_api.web.routes.new import file as new_file
from odfabric_api.web.routes.new import manifest as new_manifest
from odfabric_api.web.routes.new import sql as new_sql

PAGES = tuple(
    module.router
    for module in (
        *(files, opening, home, sql, jobs, flows, new_manifest, new_file, new_sql),
        *(profile, account_tokens, organisations),
        *(node, accounts, audit, admin_tokens, repositories),
        *(overview, rows, why, history, lineage, push, subscriptions, settings, rewriting, variables, copies, sharing),
    )
)
"""Routers of all pages, those with fixed first parts before `/{account}`."""
