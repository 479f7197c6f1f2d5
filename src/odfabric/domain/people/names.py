"""Names that nobody may take on a node.

Owns the list of account names that would hide a route: datasets are served under `/{account}/{dataset}`. The grammar of names
is in `formats.identifiers.references`.
"""

from __future__ import annotations

from odfabric.errors import InvalidName
from odfabric.model.identity import Name

RESERVED_ACCOUNT_NAMES = frozenset(
    {
        "accounts",
        "admin",
        "api",
        "assets",
        "asyncapi.json",
        "auth",
        "datasets",
        "device",
        "docs",
        "engine",
        "events",
        "everyone",
        "favicon.ico",
        "flows",
        "graphql",
        "health",
        "info",
        "jobs",
        "login",
        "logout",
        "metrics",
        "odata",
        "me",
        "oidc",
        "openapi.json",
        "orgs",
        "platform",
        "query",
        "redoc",
        "robots.txt",
        "runs",
        "search",
        "session",
        "setup",
        "sign",
        "static",
        "subscriptions",
        "system",
        "tokens",
        "ui",
        "ui-config",
        "verify",
        "webhooks",
    }
)


def check_account_name(name: Name) -> None:
    """Refuse an account name that a route has taken, in any case. Raises InvalidName."""
    if name.folded in RESERVED_ACCOUNT_NAMES:
        raise InvalidName(f"Account name '{name}' is reserved", hint="choose another name")
