"""Verbs below `odf persist`: shards of the storage library, for operators.

They work on the stores themselves, so they run where the node runs, on its workspace and settings, also while it runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from odfabric.cli.context import context_of
from odfabric.errors import InvalidRequest, Place

if TYPE_CHECKING:
    from odfabric.adapters.persist.shards import ShardOperations

REFUSED = 1
HOUR_S = 3600.0

app = typer.Typer(help="Shards of the storage library: inspect, audit, verify.", no_args_is_help=True)

LEAKED_AFTER = typer.Option(
    24.0, "--older-than", min=0.0, help="Hours after which a blob that nobody names counts as leaked"
)


@app.command("inspect")
def inspect(context: typer.Context, shard: str = typer.Argument(help="Name of a shard")) -> None:
    """What a shard is now: bounds, handles, batches, versions."""
    output = context_of(context).output
    with _shards(context) as shards:
        found: Mapping[str, Any] = shards.inspect(shard)
    if output.as_json:
        output.document(found)
        return
    batches = found["batches"]
    lines = {
        "shard": found["shard"],
        "columns": found["codec"],
        "times": f"{_bound(found['since'])} to before {_bound(found['upper'])}",
        "finalized": "yes" if found["finalized"] else "no",
        "versions": f"{found['oldest_seqno']} to {found['seqno']}, {found['version_bytes']} bytes",
        "rollups": ", ".join(map(str, found["rollups"])),
        "rows": sum(batch["rows"] for batch in batches),
    }
    output.result(None, "\n".join(f"{name + ':':11}{value}" for name, value in lines.items()))
    for kind in ("writers", "readers", "criticals", "claims"):
        if found[kind]:
            output.rows([{"name": name, **one} for name, one in found[kind].items()], title=kind)
    if batches:
        output.rows(batches, title="batches")


@app.command("usage")
def usage(context: typer.Context, older_than: float = LEAKED_AFTER) -> None:
    """What lies in the store of blobs, shard by shard, and why."""
    output = context_of(context).output
    with _shards(context) as shards:
        found = shards.usage(leaked_after_s=older_than * HOUR_S)
    output.rows(found if output.as_json else [_flat(one) for one in found])


@app.command("leaks")
def leaks(
    context: typer.Context,
    older_than: float = LEAKED_AFTER,
    remove: bool = typer.Option(False, "--remove", help="Remove them"),
) -> None:
    """Blobs that no version names, left by processes that died."""
    output = context_of(context).output
    with _shards(context) as shards:
        leaked_after_s = older_than * HOUR_S
        found = (
            list(shards.remove_leaks(leaked_after_s=leaked_after_s))
            if remove
            else shards.leaks(leaked_after_s=leaked_after_s)
        )
    output.rows(found)
    if found and not output.as_json:
        output.say(f"{len(found)} removed" if remove else "--remove removes them")


@app.command("verify")
def verify(context: typer.Context, shard: str = typer.Argument("", help="Name of a shard; default: all")) -> None:
    """Whether everything that is named is there and undamaged. Exit code 1 if not."""
    output = context_of(context).output
    found: list[Mapping[str, Any]] = []
    with _shards(context) as shards:
        names: Sequence[str] = [shard] if shard else shards.names()
        for number, name in enumerate(names):
            output.progress(f"verifying {number + 1}/{len(names)} shards")
            found.append(shards.verify(name))
    output.clear()
    problems = [f"{one['shard']}: {problem}" for one in found for problem in one["problems"]]
    if output.as_json:
        output.document({"ok": not problems, "shards": found})
    else:
        output.rows([{**one, "problems": len(one["problems"])} for one in found])
        output.text("\n".join(problems))
    if problems:
        raise typer.Exit(REFUSED)


@contextmanager
def _shards(context: typer.Context) -> Iterator[ShardOperations]:
    from odfabric.settings import read_settings
    from odfabric.wiring.jobs.indexes import open_shards

    given = context_of(context)
    if given.node is not None:
        raise InvalidRequest("this works on the stores of a node, not over HTTP", place=Place(field="--node"))
    with open_shards(read_settings(workspace=Path(given.workspace).absolute())) as shards:
        yield shards


def _bound(bound: object) -> object:
    return "for ever" if bound is None else bound


def _flat(one: Mapping[str, Any]) -> dict[str, object]:
    """A line of a table: bytes, and blobs in brackets."""
    shown: dict[str, object] = {"shard": one["shard"] or "(of no shard)"}
    for name in ("current", "referenced", "young", "leaked", "foreign"):
        shown[name] = f"{one[name]['bytes']} ({one[name]['blobs']})"
    return {**shown, "$/month": one["dollarsPerMonth"], "problem": one["problem"]}
