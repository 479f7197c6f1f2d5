"""Verbs that rewrite history on purpose: reset, compact, set-watermark, rewrites."""

from __future__ import annotations

import sys

import typer

from odfabric.cli.context import backend_of, context_of
from odfabric.cli.output import counted
from odfabric.errors import InvalidRequest, Place
from odfabric.model.instant import Instant

REF = typer.Argument(help="Name, account/name or did:odf:... of a dataset")


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("reset")(reset)
    app.command("compact")(compact)
    app.command("set-watermark")(set_watermark)
    app.command("rewrites")(rewrites)


def reset(
    context: typer.Context,
    ref: str = REF,
    block: str = typer.Argument("", help="The block that the head goes back to, by its number or hash"),
    to_seq: int | None = typer.Option(
        None, "--to-seq", min=0, help="Its number, the same without a BLOCK; 0 is the seed"
    ),
    expect: str = typer.Option("", help="Only if the head is this block; default: the head as it is now"),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask"),
) -> None:
    """Move the head of a dataset back to an earlier block. Asks on a terminal.

    Consumers get a reset, and datasets derived from it are marked: `odf pull --recompute` brings those up to date.
    """
    if (not block) == (to_seq is None):
        raise InvalidRequest("a reset goes to one block", hint="give its number or its hash, as `odf log` shows them")
    target: str | int = block if to_seq is None else to_seq
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        seen = expect or backend.history.head(ref)
        if not yes and sys.stdin.isatty():
            typer.confirm(f"Move the head of {ref} back to block {target}? Later blocks and rows are lost.", abort=True)
        done = backend.history.reset(ref, target, expected=seen)
    lost = f"{counted(done['blocksDropped'], 'block')} and {counted(done['rowsDropped'], 'row')} are out of its chain"
    output.result(done, f"{done['alias']} is at {done['head']}; {lost}")


def compact(
    context: typer.Context,
    ref: str = REF,
    keep_metadata_only: bool = typer.Option(
        False, help="Drop all rows; sources, transform and schema stay, and offsets begin with 0"
    ),
    max_slice_size: int | None = typer.Option(None, min=1, help="Largest slice that is made, in bytes"),
    max_slice_records: int | None = typer.Option(None, min=1, help="Most records of a slice that is made"),
    yes: bool = typer.Option(False, "--yes", "-y", help="Do not ask"),
) -> None:
    """Write the rows of a root dataset in fewer, larger slices. Asks on a terminal.

    Rows and offsets stay equal; all blocks are new, so datasets derived from it have to be recomputed: `odf pull --recompute`.
    """
    from odfabric.cli.backends.history_backends import CompactWish

    what = "Drop all rows" if keep_metadata_only else "Rewrite the history"
    if not yes and sys.stdin.isatty():
        typer.confirm(f"{what} of {ref}?", abort=True)
    wish = CompactWish(
        metadata_only=keep_metadata_only, slice_bytes_max=max_slice_size, slice_records_max=max_slice_records
    )
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        done = backend.history.compact(ref, wish)
    if done["upToDate"]:
        output.result(done, f"{done['alias']}: nothing to compact")
    else:
        blocks = f"{counted(done['blocksBefore'], 'block')} became {counted(done['blocksAfter'], 'block')}"
        output.result(done, f"{done['alias']}: {blocks}, {counted(done['rows'], 'row')}; its head is {done['head']}")


def set_watermark(
    context: typer.Context,
    ref: str = REF,
    watermark: str = typer.Argument(help="RFC 3339 time up to which all rows are there"),
    force: bool = typer.Option(
        False, "--force", help="Also a time far ahead of the clock; takes the right to rewrite history"
    ),
) -> None:
    """Say that all rows of a root dataset up to a time are there.

    A watermark never goes back: an earlier one changes nothing.
    """
    try:
        Instant.parse(watermark)
    except ValueError as error:
        raise InvalidRequest(str(error), place=Place(field="WATERMARK"), hint="e.g. 2026-01-31T12:00:00Z") from None
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        done = backend.history.set_watermark(ref, watermark, force=force)
    said = "has a watermark that is not earlier" if done["upToDate"] else "has the watermark"
    output.result(done, f"{done['alias']} {said}: {done['watermark']}")


def rewrites(context: typer.Context, ref: str = REF) -> None:
    """Show whether the history of a dataset, or of its inputs, was rewritten."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        shown = backend.history.shown(ref)
    if output.as_json:
        output.document(shown)
        return
    for one in shown["rewrites"]:
        output.result(None, f"{one['kind']} at {one['at']}: {one['oldHead']} -> {one['newHead']}")
    for one in shown["rewrittenInputs"]:
        output.result(None, f"{one['message']}; recompute with `odf pull {ref} --recompute`")
    if not shown["rewrites"] and not shown["rewrittenInputs"]:
        output.result(None, f"the history of {ref} was never rewritten")
