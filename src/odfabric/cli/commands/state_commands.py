"""`odf state`: the rows of a dataset at a moment.

`odf system index`: the indexes that make this fast.

Indexes lie beside the stores of a node, so the verbs on them run where the node runs, and never over HTTP.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from odfabric.cli.commands.moments import AS_AT, AS_OF, event_moment, system_moment
from odfabric.cli.context import CommandContext, backend_of, context_of
from odfabric.cli.output import Output
from odfabric.errors import InvalidRequest, NotFound, Place
from odfabric.formats.identifiers.references import parse_dataset_ref

if TYPE_CHECKING:
    from odfabric.model.commit import CatalogEntry
    from odfabric.settings import Settings
    from odfabric.wiring import Node

STATE_ROWS = 100
PAGE_ROWS = 1000
FOUND_WRONG = 1

REF = typer.Argument(help="Name, account/name or did:odf:... of a dataset")


def register(app: typer.Typer, system: typer.Typer) -> None:
    """Add the verbs to the command and to `odf system`."""
    app.command("state")(state)
    system.command("index")(index)


def state(
    context: typer.Context,
    ref: str = REF,
    as_at: str = AS_AT,
    as_of: str = AS_OF,
    as_of_block: str = typer.Option("", help="The same as --as-at with a block", hidden=True),
    limit: int = typer.Option(STATE_ROWS, "--limit", "-n", min=1),
    skip: int = typer.Option(0, min=0, help="Rows to leave out, in order of key"),
) -> None:
    """Show the rows that a changelog leaves: none retracted, all as corrected."""
    output = context_of(context).output
    known, held = system_moment(as_at or as_of_block), event_moment(as_of)
    with backend_of(context_of(context), output) as backend:
        found = backend.state(ref, as_at=known, as_of=held, limit=limit, skip=skip)
    if output.as_json:
        output.document(found)
        return
    rows = found["data"]
    assert isinstance(rows, list)
    output.rows(rows)
    at = f", as of {found['asOf']}" if held else ""
    output.say(
        f"{len(rows)} of {found['rows']} rows after block {found['sequenceNumber']} of {found['systemTime']}{at}"
    )


def index(
    context: typer.Context,
    refs: list[str] = typer.Argument(None, help="Datasets; default: all"),
    verify: bool = typer.Option(
        False, "--verify", help="Hold indexes against their chains; exit code 1 if one is wrong"
    ),
    rebuild: bool = typer.Option(False, "--rebuild", help="Make indexes again from their chains"),
    drop: bool = typer.Option(False, "--drop", help="Give indexes up; a node makes them again when they are due"),
) -> None:
    """Show current-state indexes.

    How far they are, how many rows and bytes they keep, or why a dataset has none.
    """
    from odfabric.wiring import is_workspace, open_node

    if verify + rebuild + drop > 1:
        raise InvalidRequest("only one of --verify, --rebuild and --drop at a time")
    given = context_of(context)
    settings = _settings(given)
    if not is_workspace(settings):
        raise NotFound("workspace", str(settings.workspace), hint="name it with --workspace")
    found: list[dict[str, object]] = []
    with open_node(settings) as node:
        for entry in _entries(node, refs or []):
            found.append(_done(node, entry, given.output, verify=verify, rebuild=rebuild, drop=drop))
    given.output.clear()
    if given.output.as_json:
        given.output.document(found)
    else:
        given.output.rows(found)
    if any(one.get("problem") for one in found):
        raise typer.Exit(FOUND_WRONG)


def _done(
    node: Node, entry: CatalogEntry, output: Output, *, verify: bool, rebuild: bool, drop: bool
) -> dict[str, object]:
    indexes = node.indexes
    output.progress(str(entry.alias))
    if verify:
        verified = indexes.verify(entry)
        return {**verified.report.to_value(), "problem": verified.problem}
    if rebuild:
        found = indexes.rebuild(
            entry, lambda progress: output.progress(f"{entry.alias}: block {progress.done} of {progress.total}")
        )
        return found.to_value()
    if drop:
        indexes.drop(entry)
    return indexes.inspect(entry).to_value()


def _entries(node: Node, refs: list[str]) -> Iterator[CatalogEntry]:
    if refs:
        yield from (node.datasets.resolve(parse_dataset_ref(ref)) for ref in refs)
        return
    after = None
    while page := node.datasets.page(after=after, limit=PAGE_ROWS):
        yield from page
        after = page[-1].alias


def _settings(given: CommandContext) -> Settings:
    from odfabric.settings import read_settings

    if given.node is not None:
        raise InvalidRequest("this works on the stores of a node, not over HTTP", place=Place(field="--node"))
    return read_settings(workspace=Path(given.workspace).absolute())
