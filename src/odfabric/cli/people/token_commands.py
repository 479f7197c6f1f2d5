"""Verbs below `odf token`: access tokens for programs and people."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import typer

from odfabric.cli.backends.people_backend import TokenWish
from odfabric.cli.context import backend_of, context_of
from odfabric.cli.people.secret_input import read_secret
from odfabric.cli.people.times import now, time_after
from odfabric.model.people.credential import Scope

app = typer.Typer(help="Access tokens: make, list, revoke, and find out whose one is.", no_args_is_help=True)

EXPIRES = "90d"
STDIN = "-"


class KindChoice(Enum):
    """Kinds of tokens that people make."""

    PERSONAL = "personal"
    SERVICE = "service"
    REFERENCE = "reference"


@app.command("create")
def create(
    context: typer.Context,
    name: str = typer.Argument(help="What it is for"),
    scope: list[Scope] = typer.Option(
        [Scope.READ], "--scope", help="What it may do, may be repeated: read, push, manage (both and more), admin"
    ),
    dataset: list[str] = typer.Option(
        [],
        "--dataset",
        help="Only these datasets, may be repeated; default: all that the account may",
        show_default=False,
    ),
    expires: str = typer.Option(EXPIRES, help="A duration such as 12h, 30d or 4w, a date, a time, or never"),
    kind: KindChoice = typer.Option(
        KindChoice.PERSONAL, help="service: of a program; reference: in that form, by admins"
    ),
    account: str = typer.Option("", help="Whose: an organisation, or for admins anybody's", show_default=False),
) -> None:
    """Make an access token. It is shown once, alone on standard output."""
    output = context_of(context).output
    until = time_after(expires, begin=now(), field="--expires")
    wish = TokenWish(
        name=name,
        kind=kind.value,
        scopes=sorted({each.value for each in scope}),
        datasets=dataset or None,
        expires_at=str(until.truncated_to_millis()) if until else None,
        account=account or None,
    )
    with backend_of(context_of(context), output) as backend:
        made = backend.people.create_token(wish)
    output.result(made, str(made["token"]))
    if not output.as_json:
        output.say(f"token {made['id']} of {made['account']}: {_rights(made)}; it is not shown again")


@app.command("list")
def list_tokens(
    context: typer.Context,
    account: str = typer.Option("", help="Whose; default: your own", show_default=False),
    sessions: bool = typer.Option(False, "--sessions", help="Where the account is signed in by a browser instead"),
) -> None:
    """Tokens that are not revoked, without their secrets."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.people.tokens(account=account or None, sessions=sessions)
    output.rows(found if output.as_json else [_listed(token) for token in found])


@app.command("revoke")
def revoke(context: typer.Context, token_id: str = typer.Argument(metavar="ID", help="As `list` tells it")) -> None:
    """Revoke a token or a session: it stops to count at once."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        backend.people.revoke_token(token_id)
    output.result({"id": token_id}, f"revoked {token_id}")


@app.command("inspect")
def inspect(
    context: typer.Context, token: str = typer.Argument(STDIN, help="A token that was found, - for standard input")
) -> None:
    """Whose a token is, what it may do, and whether it counts.

    `odf token revoke ID` ends it.
    """
    output = context_of(context).output
    text = read_secret("a token", option="TOKEN") if token == STDIN else token
    with backend_of(context_of(context), output) as backend:
        found = backend.people.inspect_token(text)
    lines = [
        f"{found['state']} {found['kind']} token of {found['account']}: {found['name']}",
        f"  id {found['id']}",
        f"  {_rights(found)}",
        f"  created {found['createdAt']}, last used {found['lastUsedAt'] or 'never'}",
    ]
    output.result(found, "\n".join(lines))


def _rights(token: Mapping[str, object]) -> str:
    scopes, datasets, expires = token["scopes"], token["datasets"], token["expiresAt"]
    assert isinstance(scopes, list)
    whose = "all datasets" if not isinstance(datasets, list) else f"{len(datasets)} dataset(s)"
    return f"may {', '.join(scopes)} on {whose}, {f'expires {expires}' if expires else 'never expires'}"


def _listed(token: Mapping[str, object]) -> dict[str, object]:
    scopes, datasets = token["scopes"], token["datasets"]
    assert isinstance(scopes, list)
    return {
        "id": token["id"],
        "name": token["name"],
        "kind": token["kind"],
        "scopes": ",".join(scopes),
        "datasets": "all" if not isinstance(datasets, list) else len(datasets),
        "expires": token["expiresAt"] or "never",
        "lastUsed": token["lastUsedAt"] or "never",
        "state": token["state"],
    }
