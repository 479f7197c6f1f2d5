"""Verbs `backup` and `restore`: a node into a folder or a bucket, and back.

They work on the stores themselves, so they run where the node runs, by its settings, and never over HTTP.
"""

from __future__ import annotations

from collections.abc import Callable

import typer

from odfabric.cli.commands.recovery_commands import REFUSED, rebuild_line, settings_on_stores
from odfabric.cli.context import context_of
from odfabric.cli.output import Output

PLACE = typer.Argument(help="Folder, or s3://bucket/prefix by the settings ODF_S3_...")
SHOWN_EACH = 100


def register(app: typer.Typer) -> None:
    """Add the verbs to `odf`."""
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    context: typer.Context,
    place: str = PLACE,
    listed: bool = typer.Option(False, "--list", help="Show the backups that are there, and make none"),
) -> None:
    """Back up the node: database, keys and objects. It may run meanwhile.

    Backups in one place share their objects: a later one copies what is new. Who can read the place has the keys of the node.
    Exit code 1 if an object is damaged: the backup is without it.
    """
    from odfabric.wiring.operations.backups import list_backups, make_backup

    given = context_of(context)
    output, settings = given.output, settings_on_stores(given)
    if listed:
        found = list_backups(settings, place)
        rows = [
            {"id": one.id, "createdAt": one.created_at, "release": one.release, "objects": one.objects} for one in found
        ]
        output.rows(rows)
        return
    made = make_backup(settings, place, listener=_shown(output))
    output.clear()
    rows_total = sum(made.tables.values())
    output.result(made.to_value(), f"made the backup {made.id}: {rows_total} rows, {made.objects} objects")
    _tell_damaged(output, made.damaged, "damaged, and left out")
    if made.damaged:
        raise typer.Exit(REFUSED)


def restore(
    context: typer.Context,
    place: str = PLACE,
    backup_id: str = typer.Option("", "--backup", help="Which one (`odf backup --list`); default: the newest"),
) -> None:
    """Restore a backup into an empty workspace or empty servers.

    Servers are given by ODF_DATABASE_URL and ODF_OBJECTS_URL.

    Every object is hashed on its way. What was published after the rows of the backup were read comes from the objects. An
    interrupted restore is run again. A backup of a workspace may be restored into servers, and the other way round.
    """
    from odfabric.wiring import open_node, prepare_workspace
    from odfabric.wiring.operations.backups import restore_backup

    given = context_of(context)
    output, settings = given.output, settings_on_stores(given)
    done = restore_backup(settings, place, backup_id or None, listener=_shown(output))
    output.clear()
    prepare_workspace(settings)
    with open_node(settings) as node:
        rebuilt = [one.to_value() for one in node.objects.rebuild(adopt=False)]
    output.clear()
    problems = [one for one in rebuilt if "problem" in one]
    value = {"backup": done.to_value(), "datasets": rebuilt}
    output.result(value, f"restored the backup {done.id}: {len(rebuilt)} datasets, {done.objects} objects")
    _tell_damaged(output, done.damaged, "not in the backup, or damaged there")
    if not output.as_json:
        for one in problems:
            output.say(rebuild_line(one))
        output.say("`odf verify NAME` runs what a dataset claims again")
    if done.damaged or problems:
        raise typer.Exit(REFUSED)


def _shown(output: Output) -> Callable[[str, int], None]:
    def show(stage: str, done: int) -> None:
        if done % SHOWN_EACH == 0:
            output.progress(f"{stage}: {done}")

    return show


def _tell_damaged(output: Output, damaged: object, what: str) -> None:
    if not output.as_json and isinstance(damaged, dict):
        for key, reason in damaged.items():
            output.say(f"{key}: {what}: {reason}")
