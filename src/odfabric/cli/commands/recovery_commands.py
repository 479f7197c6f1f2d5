"""Verbs below `odf system` for operators.

Rebuild a node's database, collect what nothing names, try an engine.

They work on the stores themselves, so they run where the node runs, on its workspace and settings, and never over HTTP.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from odfabric.cli.context import CommandContext, context_of
from odfabric.cli.output import Output, counted
from odfabric.errors import InvalidRequest, NotFound, Place

if TYPE_CHECKING:
    from odfabric.settings import Settings

REFUSED = 1


def register(app: typer.Typer) -> None:
    """Add the verbs to `odf system`."""
    app.command("rebuild")(rebuild)
    app.command("collect")(collect)
    app.command("replay")(replay)
    app.command("engines")(engines)


def replay(
    context: typer.Context,
    ref: str = typer.Argument(help="Name, account/name or did:odf:... of a derivative dataset"),
    engine_digest: str = typer.Option("", help="What the digest of the engine must begin with (`odf engine info`)"),
) -> None:
    """Replay a dataset's transactions on this engine, and record which it reproduces.

    To try an engine before another is given up: ODF_ENGINE_ADDRESS and ODF_ENGINE_TOKEN name it. Exit code 1 if one differs.
    Checkpoints and slices that are missing or damaged come back where the engine makes them to the byte.
    """
    from odfabric.formats.identifiers.references import parse_dataset_ref
    from odfabric.usecases.verification.replay_transactions import ReplayPorts, replay_transactions
    from odfabric.wiring import open_node

    given = context_of(context)
    output = given.output
    with open_node(settings_on_stores(given)) as node:
        ports = ReplayPorts(
            node.repository,
            node.ports.engine,
            node.ports.exchange,
            node.ports.objects,
            node.ports.clock,
            node.commits.sign,
        )
        info, found = replay_transactions(
            node.datasets.resolve(parse_dataset_ref(ref)),
            ports=ports,
            blocks_max=node.settings.chain_blocks_max,
            digest=engine_digest or None,
            listener=lambda progress: output.progress(f"{progress.stage} {progress.done}/{progress.total}"),
        )
    output.clear()
    rows = [
        {
            "block": str(one.block),
            "reproduced": one.reproduced,
            "message": one.message,
            "restored": list(one.restored),
        }
        for one in found
    ]
    if output.as_json:
        engine = {"name": info.name, "version": info.version, "digest": info.digest}
        output.document({"engine": engine, "transactions": rows})
    else:
        good = sum(one.reproduced for one in found)
        output.result(
            None, f"{info.name} {info.version} {info.digest[:16]} reproduces {good} of {len(found)} transactions"
        )
        for key in (key for one in found for key in one.restored):
            output.result(None, f"put back {key}")
        if good < len(found):
            output.rows([row for row in rows if not row["reproduced"]])
    if not all(one.reproduced for one in found):
        raise typer.Exit(REFUSED)


def engines(
    context: typer.Context, ref: str = typer.Argument(help="Name, account/name or did:odf:... of a dataset")
) -> None:
    """Show which engines made which blocks of a dataset, and which reproduce them.

    As `odf system replay` has recorded it.
    """
    from odfabric.formats.identifiers.references import parse_dataset_ref
    from odfabric.usecases.transform.engine_records import engine_records
    from odfabric.wiring import open_node

    given = context_of(context)
    with open_node(settings_on_stores(given)) as node:
        dataset = node.datasets.resolve(parse_dataset_ref(ref)).id
        given.output.rows(list(engine_records(dataset, objects=node.ports.objects)))


def rebuild(
    context: typer.Context,
    adopt: bool = typer.Option(False, "--adopt", help="Take blocks too that were made but never published"),
) -> None:
    """Make the database again from the objects, dataset by dataset.

    Exit code 1 if one of them is damaged.

    Run it while the node is stopped. What the objects do not hold comes from a backup of the database, restored before:
    keys of datasets, addresses of copies, subscriptions, jobs.
    """
    from odfabric.wiring import open_node, prepare_workspace

    given = context_of(context)
    output = given.output
    settings = settings_on_stores(given)
    if settings.objects_url is None and not settings.workspace.is_dir():
        raise NotFound(
            "workspace", str(settings.workspace), hint="name the folder that holds `objects` with --workspace"
        )
    prepare_workspace(settings)
    found: list[dict[str, object]] = []
    with open_node(settings) as node:
        for one in node.objects.rebuild(
            adopt=adopt, listener=lambda stage, done, total: _tell(output, stage, done, total)
        ):
            found.append(one.to_value())
            if not output.as_json:
                output.result(None, rebuild_line(found[-1]))
    output.clear()
    ok = not any("problem" in one for one in found)
    if output.as_json:
        output.document({"ok": ok, "datasets": found})
    elif not found:
        output.say("there are no datasets in the objects")
    if not ok:
        raise typer.Exit(REFUSED)


def collect(
    context: typer.Context,
    dry_run: bool = typer.Option(False, "--dry-run", help="Only tell what would be deleted"),
    alone: bool = typer.Option(False, "--alone", help="All other nodes that share the objects are stopped"),
) -> None:
    """Delete objects that no chain names, and those of deleted datasets.

    Only once they are old enough (`garbage_lifetime_s`).

    Uploads that no job wants (`staged_lifetime_s`) and unfinished writes (`leftover_lifetime_s`) go with them. A running node does this by itself, some objects at a time, unless it shares the objects with other nodes.
    """
    from odfabric.wiring import is_workspace, open_node

    given = context_of(context)
    output = given.output
    settings = settings_on_stores(given)
    if not is_workspace(settings):
        raise NotFound("workspace", str(settings.workspace), hint="name it with --workspace")
    if settings.heads == "objects" and not (alone or dry_run):
        raise InvalidRequest(
            "other nodes may be committing what would be deleted",
            place=Place(field="--alone"),
            hint="stop them, then say so with --alone",
        )
    objects: list[dict[str, object]] = []
    left_alone: dict[str, str] = {}
    looked_at = size = 0
    with open_node(settings) as node:
        for portion in node.objects.collect(dry_run=dry_run):
            looked_at += portion.looked_at
            output.progress(f"looked at {looked_at} objects")
            for one in portion.litter:
                objects.append({"key": one.key, "bytes": one.size})
                size += one.size
                if not output.as_json:
                    output.result(None, f"{one.size:>12}  {one.key}")
            if portion.left_alone is not None:
                left_alone[str(portion.dataset)] = portion.left_alone.value
        # Which would be removed cannot be reported beforehand.
        leftovers = None if dry_run else node.background.remove_leftovers()
    output.clear()
    if output.as_json:
        told = {"dryRun": dry_run, "objects": objects, "bytes": size, "leftAlone": left_alone}
        output.document({**told, "leftovers": leftovers})
        return
    for dataset, why in left_alone.items():
        output.say(f"{dataset} is left alone: {why}")
    done = "would be deleted" if dry_run else "deleted"
    more = f"; {leftovers} leftovers removed" if leftovers else ""
    output.result(None, f"{len(objects)} of {looked_at} objects {done}, {size} bytes{more}")


def settings_on_stores(given: CommandContext) -> Settings:
    """Settings for a verb that works on the stores of a node.

    Raises InvalidRequest if a node was named to be asked over HTTP.
    """
    from odfabric.settings import read_settings

    if given.node is not None:
        raise InvalidRequest("this works on the stores of a node, not over HTTP", place=Place(field="--node"))
    return read_settings(workspace=Path(given.workspace).absolute())


def _tell(output: Output, stage: str, done: int, total: int) -> None:
    output.progress(f"{stage} {done}/{total} blocks" if total else f"{stage} {done} blocks")


def rebuild_line(one: Mapping[str, object]) -> str:
    """What became of a dataset in a rebuild, for people."""
    taken = f", {counted(int(str(one['blocks'])), 'block')}" if one["blocks"] else ""
    lines = [f"{one['alias'] or one['id']}: {one['outcome']}{taken}"]
    beyond, problem = one["beyond"], one.get("problem")
    if isinstance(problem, Mapping):
        lines.append(f"  {problem['message']}" + (f"\n    object {problem['object']}" if problem["object"] else ""))
    if isinstance(beyond, list) and beyond:
        said = "taken" if one["adopted"] else "not published, left out; --adopt takes them"
        lines.append(f"  {counted(len(beyond), 'block')} beyond refs/head, {said}:")
        lines += [f"    {block}" for block in beyond]
    return "\n".join(lines)
