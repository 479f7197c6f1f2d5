"""Verbs below `odf account`: look at accounts, change, suspend and delete them."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import typer

from odfabric.cli.context import backend_of, context_of
from odfabric.cli.output import Output
from odfabric.cli.people.secret_input import asked_secret
from odfabric.errors import InvalidRequest
from odfabric.model.people.account import AccountKind

app = typer.Typer(help="Accounts: look at them, change, suspend and delete them.", no_args_is_help=True)

NAME = typer.Argument(help="Name of an account")
OWN_NAME = typer.Argument("", help="Name of an account; default: your own", show_default=False)


@app.command("show")
def show(context: typer.Context, name: str = OWN_NAME) -> None:
    """An account; with e-mail and limits if you manage it."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.people.account(name or None)
    show_account(output, found)


@app.command("list")
def list_accounts(
    context: typer.Context, kind: AccountKind | None = typer.Option(None, help="Only these", show_default=False)
) -> None:
    """All accounts, for admins of the node."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.people.accounts(kind=kind.value if kind else None)
    output.rows(found if output.as_json else [_listed(account) for account in found])


@app.command("set")
def change(
    context: typer.Context,
    name: str = OWN_NAME,
    display_name: str | None = typer.Option(None, help="How people are shown it", show_default=False),
    email: str | None = typer.Option(None, help="An empty one removes it", show_default=False),
) -> None:
    """Change what an account says of itself; its name does not change."""
    output = context_of(context).output
    if display_name is None and email is None:
        raise InvalidRequest("there is nothing to change", hint="--display-name, --email")
    with backend_of(context_of(context), output) as backend:
        changed = backend.people.change_account(name or None, display_name=display_name, email=email)
    show_account(output, changed)


@app.command("password")
def password(context: typer.Context) -> None:
    """Change your password, which ends your browser sessions.

    In a pipe: a line with the old one, empty if there is none, and one with the new.
    """
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        account = backend.people.myself()["accountName"]
        old = asked_secret(f"Old password of {account}, empty if there is none", may_be_empty=True)
        new = asked_secret("New password")
        if sys.stdin.isatty() and asked_secret("The same again") != new:
            raise InvalidRequest("the two passwords differ", hint="nothing was changed")
        backend.people.change_password(old or None, new)
    output.result({"account": account}, f"changed the password of {account}")


@app.command("suspend")
def suspend(context: typer.Context, name: str = NAME) -> None:
    """Suspend an account: its tokens and sessions end, nothing is deleted."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        changed = backend.people.set_suspended(name, True)
    output.result(changed, f"suspended {changed['name']}")


@app.command("resume")
def resume(context: typer.Context, name: str = NAME) -> None:
    """Let a suspended account in again."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        changed = backend.people.set_suspended(name, False)
    output.result(changed, f"resumed {changed['name']}")


@app.command("delete")
def delete(
    context: typer.Context, name: str = NAME, yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask")
) -> None:
    """Delete an account or an organisation that owns no datasets. Asks on a terminal."""
    output = context_of(context).output
    if not yes and sys.stdin.isatty():
        typer.confirm(f"Delete the account {name} for good?", abort=True)
    with backend_of(context_of(context), output) as backend:
        backend.people.delete_account(name)
    output.result({"name": name}, f"deleted {name}")


def show_account(output: Output, account: Mapping[str, object]) -> None:
    """An account as lines for people."""
    shown = {
        "name": account["name"],
        "kind": account["kind"],
        "shown as": account["displayName"],
        "id": account["id"],
        "created": account["createdAt"],
        "e-mail": account.get("email"),
        "admin of the node": "yes" if account.get("isAdmin") else None,
        "suspended": account.get("suspendedAt"),
    }
    lines = [f"{label + ':':19}{value}" for label, value in shown.items() if value is not None]
    output.result(account, "\n".join([*lines, *limit_lines(account)]))


def limit_lines(account: Mapping[str, object]) -> list[str]:
    """Limits that an admin has set for an account, for people."""
    limits = account.get("limits")
    found = limits.items() if isinstance(limits, dict) else ()
    return [f"{name + ':':19}{value}" for name, value in found if value is not None]


def _listed(account: Mapping[str, object]) -> dict[str, object]:
    suspended, admin = account.get("suspendedAt"), account.get("isAdmin")
    return {
        "name": account["name"],
        "kind": account["kind"],
        "shownAs": account["displayName"],
        "email": account.get("email"),
        "standing": "suspended" if suspended else "admin" if admin else "",
        "created": account["createdAt"],
    }
