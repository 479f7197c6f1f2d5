"""Verbs below `odf webhook`: receivers, the state of deliveries, and repairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import typer

from odfabric.cli.context import backend_of, context_of
from odfabric.formats.manifests.durations import parse_duration

app = typer.Typer(help="Webhooks: receivers of the changes of datasets.", no_args_is_help=True)

REF = typer.Argument(
    help="Name, account/name or did:odf:... of a dataset; @ACCOUNT for all of an account, @ for all of the node"
)
SUBSCRIPTION = typer.Argument(help="Id of a subscription, as `odf webhook list` shows it")


@app.command("list")
def list_webhooks(context: typer.Context, ref: str = REF) -> None:
    """The subscriptions of a dataset, and whether they work."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.webhooks.listed(ref)
    if output.as_json:
        output.document(found)
        return
    output.rows([_row(each) for each in found])


@app.command("add")
def add(
    context: typer.Context,
    places: list[str] = typer.Argument(
        metavar="[REF] URL", help="A dataset and where to deliver; with --account or --whole-node the URL alone"
    ),
    account: str = typer.Option("", "--account", help="Follow all datasets of this account"),
    node: bool = typer.Option(False, "--whole-node", help="Follow all datasets of the node"),
    events: str = typer.Option(
        "",
        "--events",
        help="Types with commas between, such as flow.failed,dataset.created; default: head moves, or all types",
    ),
    form: str = typer.Option("cloudevents", "--format", help="cloudevents, or kamu: as the reference node sends"),
    secret: str = typer.Option("", envvar="ODF_WEBHOOK_SECRET", help="Secret that signs; default: one is made"),
    only_with_data: bool = typer.Option(False, "--only-with-data", help="No event for changes that bring no records"),
    columns: str = typer.Option(
        "", "--columns", help="Column names with commas between: no event for corrections that change none of them"
    ),
    rows: bool = typer.Option(False, "--rows", help="Events carry the changed records, as many as fit"),
) -> None:
    """Send a receiver every later event. Its secret is shown this once."""
    output = context_of(context).output
    ref, url = _scope(places, account, node=node)
    types = _names(events) if events else None
    moves = {"onlyWithData": only_with_data, "columns": _names(columns), "rows": rows}
    with backend_of(context_of(context), output) as backend:
        made = backend.webhooks.add(ref, url, form=form, secret=secret or None, events=types, moves=moves)
    output.result(made, f"subscription {made['id']}\n  secret {made['secret']}, shown only now")


def _names(text: str) -> list[str]:
    return [each.strip() for each in text.split(",") if each.strip()]


@app.command("log")
def log(context: typer.Context, ref: str = REF, subscription: str = SUBSCRIPTION) -> None:
    """Deliveries, newest first: what arrived, what waits, what the receiver answered."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.webhooks.deliveries(ref, subscription)
    if output.as_json:
        output.document(found)
        return
    output.rows([_delivery_row(each) for each in found])


@app.command("pause")
def pause(context: typer.Context, ref: str = REF, subscription: str = SUBSCRIPTION) -> None:
    """Send nothing; what is to be delivered waits."""
    _change(context, ref, subscription, paused=True)


@app.command("resume")
def resume(context: typer.Context, ref: str = REF, subscription: str = SUBSCRIPTION) -> None:
    """Send again, in order, also after days of failure have disabled it."""
    _change(context, ref, subscription, paused=False)


@app.command("test")
def send_test_event(context: typer.Context, ref: str = REF, subscription: str = SUBSCRIPTION) -> None:
    """Send a test event once, and show what the receiver answered.

    Exit code 1 if that was a failure.
    """
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        tried = backend.webhooks.test(ref, subscription)
    if tried["failure"]:
        output.result(tried, f"failed ({tried['failure']}) after {tried['durationMs']} ms: {tried['error']}")
        raise typer.Exit(1)
    output.result(tried, f"the receiver answered {tried['statusCode']} after {tried['durationMs']} ms")


@app.command("rotate")
def rotate(
    context: typer.Context,
    ref: str = REF,
    subscription: str = SUBSCRIPTION,
    overlap: str = typer.Option(
        "", help="How long the old secret signs too, such as 12h; default: as the node has set"
    ),
) -> None:
    """Get a new secret, which is shown this once."""
    output = context_of(context).output
    overlap_s = parse_duration(overlap) if overlap else None
    with backend_of(context_of(context), output) as backend:
        made = backend.webhooks.rotate(ref, subscription, overlap_s=overlap_s)
    until = f"; the old one signs too until {made['oldSecretUntil']}" if made.get("oldSecretUntil") else ""
    output.result(made, f"secret {made['secret']}, shown only now{until}")


@app.command("replay")
def replay(
    context: typer.Context,
    ref: str = REF,
    subscription: str = SUBSCRIPTION,
    start: int = typer.Option(0, "--from", min=0, help="All from this number on; 0: all that failed"),
) -> None:
    """Deliver again: with the same ids, signed with the present secret."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        count = backend.webhooks.replay(ref, subscription, from_sequence=start or None)
    output.result(count, f"{count['replayed']} to be delivered again")


@app.command("remove")
def remove(context: typer.Context, ref: str = REF, subscription: str = SUBSCRIPTION) -> None:
    """End a subscription; what is not delivered yet is dropped."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        removed = backend.webhooks.remove(ref, subscription)
    output.result(removed, f"removed {removed['id']}")


def _scope(places: Sequence[str], account: str, *, node: bool) -> tuple[str, str]:
    """What is followed, as a reference, and the URL.

    Raises BadParameter unless exactly one thing is given.
    """
    given = [*([f"@{account}"] if account else []), *(["@"] if node else []), *places[:-1]]
    if len(given) != 1:
        raise typer.BadParameter("give a dataset and a URL, or a URL and one of --account and --whole-node")
    return given[0], places[-1]


def _change(context: typer.Context, ref: str, subscription: str, *, paused: bool) -> None:
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        changed = backend.webhooks.change(ref, subscription, paused=paused)
    output.result(changed, f"subscription {changed['id']} is {changed['state']}")


def _row(subscription: Mapping[str, Any]) -> dict[str, object]:
    return {
        "subscription": subscription["id"],
        "receiver": subscription["url"],
        "state": subscription["state"],
        "failing since": subscription["failingSince"] or "",
        "why": subscription["stateReason"] or "",
    }


def _delivery_row(delivery: Mapping[str, Any]) -> dict[str, object]:
    return {
        "number": delivery["sequence"],
        "status": delivery["status"],
        "attempts": delivery["attempts"],
        "next attempt": delivery["nextAttemptAt"] if delivery["status"] == "pending" else "",
        "answer": delivery["lastStatusCode"] or "",
        "error": delivery["lastError"] or "",
    }
