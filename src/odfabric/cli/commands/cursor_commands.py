"""Verbs below `odf cursor`: read a dataset by a cursor that a fence protects."""

from __future__ import annotations

from collections.abc import Mapping

import typer

from odfabric.cli.context import backend_of, context_of

app = typer.Typer(help="Read datasets by cursors: a baseline, then every change.", no_args_is_help=True)

REF = typer.Argument(help="Name, account/name or did:odf:... of a dataset")
CONSUMER = typer.Argument(help="Name of the consumer")
FENCE = typer.Option(..., help="As `create` or `claim` told it")


@app.command("create")
def create(
    context: typer.Context,
    ref: str = REF,
    consumer: str = CONSUMER,
    start: str = typer.Option("baseline", "--from", help="baseline, now, start, or the hash of a block"),
) -> None:
    """Make a cursor and hold it."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        made = backend.cursors.create(ref, consumer, start=start)
    output.result(made, _held(made))


@app.command("list")
def list_cursors(context: typer.Context, ref: str = REF) -> None:
    """Cursors of a dataset and what their consumers have acknowledged."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.cursors.listed(ref)
    output.rows(found)


@app.command("claim")
def claim(
    context: typer.Context,
    ref: str = REF,
    consumer: str = CONSUMER,
    fence: str = typer.Option("", help="Fence of the last holder; without it, its lease must be over"),
) -> None:
    """Become the holder of a cursor.

    The fence of the one before is worth nothing any more.
    """
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        held = backend.cursors.claim(ref, consumer, fence=fence or None)
    output.result(held, _held(held))


@app.command("fetch")
def fetch(
    context: typer.Context,
    ref: str = REF,
    consumer: str = CONSUMER,
    fence: str = FENCE,
    limit: int = typer.Option(0, "--limit", "-n", min=0, help="At most so many rows; 0 = as many as the node gives"),
) -> None:
    """What comes next: the same again until it is acknowledged."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.cursors.fetch(ref, consumer, fence=fence, limit=limit or None)
    if output.as_json:
        output.document(found)
        return
    event = found["event"]
    if isinstance(event, Mapping):
        rows = event.get("rows")
        output.result(None, _event_line(event))
        output.rows(rows if isinstance(rows, list) else [])
    else:
        output.result(None, "up to date")
    output.result(None, f"position {found['position']}")


@app.command("ack")
def acknowledge(
    context: typer.Context,
    ref: str = REF,
    consumer: str = CONSUMER,
    position: str = typer.Argument(help="As `fetch` told it"),
    fence: str = FENCE,
) -> None:
    """Say that everything before a position is safe. Saying it again is fine."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        moved = backend.cursors.acknowledge(ref, consumer, fence=fence, position=position)
    output.result(moved, f"{moved['consumer']} is at {moved['position']}")


@app.command("delete")
def delete(context: typer.Context, ref: str = REF, consumer: str = CONSUMER) -> None:
    """Delete a cursor, no matter who holds it."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        deleted = backend.cursors.delete(ref, consumer)
    output.result(deleted, f"deleted {deleted['consumer']}")


def _held(cursor: Mapping[str, object]) -> str:
    return (
        f"{cursor['consumer']} is at {cursor['position']}\n"
        f"  fence {cursor['fence']}, held until {cursor['leaseUntil']} and longer with each fetch"
    )


def _event_line(event: Mapping[str, object]) -> str:
    if event["kind"] == "reset":
        return f"reset: the dataset was made anew, {event['fromEpoch']} is not in it; a new baseline comes next"
    return f"{event['kind']} at block {event['sequence']}, {event['block']}"
