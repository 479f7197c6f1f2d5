"""Verbs below `odf admin`, for admins of a node.

Invitations, admins, limits, audit, and who may do what and why.
"""

from __future__ import annotations

from collections.abc import Mapping

import typer

from odfabric.cli.backends.people_backend import AuditQuery
from odfabric.cli.context import backend_of, context_of
from odfabric.cli.people.account_commands import limit_lines
from odfabric.cli.people.times import now, time_before
from odfabric.errors import InvalidRequest, Place
from odfabric.model.people.audit import AuditOutcome

app = typer.Typer(help="For admins of the node: invitations, admins, limits, audit.", no_args_is_help=True)

AUDIT_ROWS = 100
AUDIT_SINCE = "7d"
DEFAULT = "default"

NAME = typer.Argument(help="Name of an account")
NODE_URL = typer.Option(
    "",
    "--url",
    help="On a workspace: address by which people reach its node; default: ODF_PUBLIC_URL",
    show_default=False,
)
LIMIT = f"A number, or `{DEFAULT}`: that of the node's settings"


@app.command("invite")
def invite(
    context: typer.Context,
    name: str = typer.Argument("", help="The name that they get; default: they choose", show_default=False),
    email: str | None = typer.Option(None, help="Their address, for the account", show_default=False),
    admin: bool = typer.Option(False, "--admin", help="They become an admin of the node"),
    url: str = NODE_URL,
) -> None:
    """A link by which somebody makes an account; it works once, and is shown once."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        made = backend.people.invite(name=name or None, email=email, is_admin=admin, url=url or None)
    output.result(made, str(made["url"]))
    if not output.as_json:
        output.say(f"invitation {made['id']}, works once until {made['expiresAt']}; send it to nobody else")


@app.command("reset-password")
def reset_password(context: typer.Context, name: str = NAME, url: str = NODE_URL) -> None:
    """A link by which a user chooses a new password; it works once, and is shown once."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        made = backend.people.reset_password(name, url=url or None)
    output.result(made, str(made["url"]))
    if not output.as_json:
        output.say(f"a new password for {name}, works once until {made['expiresAt']}; send it to nobody else")


@app.command("invitations")
def invitations(
    context: typer.Context,
    withdraw: str = typer.Option("", "--withdraw", metavar="ID", help="Make this link worthless", show_default=False),
) -> None:
    """Links that can still be used, newest first."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        if withdraw:
            backend.people.withdraw_invitation(withdraw)
            output.result({"id": withdraw}, f"withdrew {withdraw}")
            return
        found = backend.people.invitations()
    output.rows(found if output.as_json else [_invitation(each) for each in found])


@app.command("grant")
def grant(context: typer.Context, name: str = NAME) -> None:
    """Make a user an admin of the node."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        changed = backend.people.set_admin(name, True)
    output.result(changed, f"{changed['name']} is an admin of the node")


@app.command("revoke")
def revoke(context: typer.Context, name: str = NAME) -> None:
    """Make a user no admin of the node any more."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        changed = backend.people.set_admin(name, False)
    output.result(changed, f"{changed['name']} is no admin of the node any more")


@app.command("limits")
def limits(
    context: typer.Context,
    name: str = NAME,
    datasets: str = typer.Option("", help=LIMIT, show_default=False),
    stored_bytes: str = typer.Option("", help=LIMIT, show_default=False),
    pushes_per_minute: str = typer.Option("", help=LIMIT, show_default=False),
    queries_at_once: str = typer.Option("", help=LIMIT, show_default=False),
) -> None:
    """Limits of one account; without options what is set for it."""
    output = context_of(context).output
    given = {
        "datasetsMax": ("--datasets", datasets),
        "storedBytesMax": ("--stored-bytes", stored_bytes),
        "pushesPerMinuteMax": ("--pushes-per-minute", pushes_per_minute),
        "queriesAtOnceMax": ("--queries-at-once", queries_at_once),
    }
    changes = {member: _limit(text, option) for member, (option, text) in given.items() if text}
    with backend_of(context_of(context), output) as backend:
        account = backend.people.change_limits(name, changes)
    lines = limit_lines(account) or ["the node's settings are its limits"]
    output.result(account.get("limits"), "\n".join([str(account["name"]), *(f"  {line}" for line in lines)]))


@app.command("audit")
def audit(
    context: typer.Context,
    since: str = typer.Option(AUDIT_SINCE, help="A duration back such as 24h or 7d, a date, or a time"),
    until: str = typer.Option("", help="The same; default: now", show_default=False),
    kind: list[str] = typer.Option(
        [], "--kind", help="Only these, e.g. role.granted; may be repeated", show_default=False
    ),
    account: str = typer.Option("", help="Only what this account did", show_default=False),
    target: str = typer.Option("", help="Only what was done to this", show_default=False),
    outcome: AuditOutcome | None = typer.Option(None, help="Only these", show_default=False),
    after: int = typer.Option(0, min=0, help="Only entries with greater ids"),
    limit: int = typer.Option(AUDIT_ROWS, "--limit", "-n", min=1),
) -> None:
    """What was done to rights, accounts, tokens and datasets, and what was refused.

    Oldest first.
    """
    output = context_of(context).output
    query = AuditQuery(
        after=after,
        limit=limit,
        kinds=kind,
        account=account or None,
        target=target or None,
        outcome=outcome.value if outcome else None,
        since=_instant(since, "--since"),
        until=_instant(until, "--until") if until else None,
    )
    with backend_of(context_of(context), output) as backend:
        found = backend.people.audit(query)
    output.rows(found if output.as_json else [_entry(each) for each in found])
    if len(found) == limit and not output.as_json:
        output.say(f"the first {limit} entries; --after {found[-1]['id']} shows what follows")


@app.command("explain")
def explain(
    context: typer.Context,
    dataset: str = typer.Argument(help="Name, account/name or did:odf:... of a dataset"),
    account: str = typer.Argument("", help="Name of an account; default: a stranger", show_default=False),
) -> None:
    """What an account may do with a dataset, and why."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.people.explain(dataset, account or None)
    reasons, allowed = found["reasons"], found["allowed"]
    assert isinstance(reasons, list)
    assert isinstance(allowed, list)
    lines = [
        f"{found['account']} on {found['dataset']}: {found['role'] or 'no role'}",
        *(f"  because {reason}" for reason in reasons),
        f"  may {', '.join(allowed) if allowed else 'do nothing'}",
    ]
    output.result(found, "\n".join(lines))


def _limit(text: str, option: str) -> int | None:
    if text == DEFAULT:
        return None
    if not (text.isascii() and text.isdecimal()):
        raise InvalidRequest(f"not a limit: {text}", place=Place(field=option), hint=f"a number, or `{DEFAULT}`")
    return int(text)


def _invitation(value: Mapping[str, object]) -> dict[str, object]:
    whom = value["account"] or value["name"] or "whoever has it"
    what = "new password" if value["account"] else "admin" if value["isAdmin"] else "account"
    return {"id": value["id"], "for": whom, "makes": what, "email": value["email"], "until": value["expiresAt"]}


def _entry(value: Mapping[str, object]) -> dict[str, object]:
    actor, detail = value["actor"], value["detail"]
    assert isinstance(actor, dict)
    assert isinstance(detail, dict)
    return {
        "id": value["id"],
        "at": value["at"],
        "who": actor["name"] or actor["address"],
        "kind": value["kind"],
        "outcome": value["outcome"],
        "times": value["count"],
        "target": value["target"],
        "detail": ", ".join(f"{name}={text}" for name, text in detail.items()),
    }


def _instant(text: str, field: str) -> str:
    return str(time_before(text, begin=now(), field=field).truncated_to_millis())
