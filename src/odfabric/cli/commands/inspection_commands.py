"""`odf doctor` and `odf support-bundle`: diagnose the node of this machine."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from odfabric.cli.commands.recovery_commands import settings_on_stores
from odfabric.cli.context import CommandContext, context_of
from odfabric.cli.output import Output
from odfabric.errors import AlreadyExists, InvalidRequest

if TYPE_CHECKING:
    from odfabric.model.node.finding import Finding
    from odfabric.settings import Settings

BROKEN = 1
SIGNS = {"ok": "ok      ", "warning": "warning ", "broken": "BROKEN  "}


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("doctor")(doctor)
    app.command("support-bundle")(support_bundle)


def doctor(
    context: typer.Context,
    as_json: bool = typer.Option(False, "--json", help="The same as -o json"),
) -> None:
    """Check the surroundings of the node of this machine.

    Disk, files, clock, database, bucket, Redis, engine, workers.

    Works on the workspace and settings of the node, also while the node does not. Changes nothing, but writes and removes a scratch file
    and scratch objects. Exit code 1 if something is broken.
    """
    from odfabric.usecases.doctor.diagnose import is_broken

    given = context_of(context)
    output = Output(as_json=given.as_json or as_json)
    findings = _findings(given, output)
    if output.as_json:
        output.document({"ok": not is_broken(findings), "findings": [finding.to_value() for finding in findings]})
    else:
        for finding in findings:
            output.result(None, f"{SIGNS[finding.outcome.value]}{finding.name + ':':14} {finding.seen}")
            if finding.remedy is not None:
                output.result(None, f"{'':23}-> {finding.remedy}")
    if is_broken(findings):
        raise typer.Exit(BROKEN)


def support_bundle(
    context: typer.Context,
    out: str = typer.Option("", help="File to be made; default: odf-support-TIME.zip in this folder"),
    engine_log: bool = typer.Option(False, "--engine-log", help="Add the engine's log, which may quote values of rows"),
) -> None:
    """Gather what helps others to diagnose this node, as one ZIP file.

    Findings of the doctor, versions, settings, sizes of tables, jobs and runs that failed, duties, metrics, ends of logs. No rows, no queries,
    no secrets, and of URLs the host alone. Look through it before you send it.
    """
    from odfabric.formats.operations.support_zip import support_zip
    from odfabric.wiring.operations.support import support_files

    given = context_of(context)
    output = given.output
    settings = _settings(given)
    path = Path(out or f"odf-support-{datetime.now(UTC):%Y%m%d-%H%M%S}.zip")
    output.progress("gathering")
    data = support_zip(support_files(settings, with_engine_log=engine_log))
    output.clear()
    try:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.write(data)
    except FileExistsError:
        raise AlreadyExists(f"{path} is there already", hint="name another file with --out") from None
    output.result(
        {"file": str(path), "bytes": len(data)}, f"{path}: {len(data)} bytes; look through it before you send it"
    )


def _settings(given: CommandContext) -> Settings:
    if given.node is not None:
        raise InvalidRequest("this looks at the machine that it runs on", hint="run it there, without --node")
    return settings_on_stores(given)


def _findings(given: CommandContext, output: Output) -> Sequence[Finding]:
    """Findings, with unreadable settings as one: nothing else can be looked at then."""
    from odfabric.model.node.finding import Finding, Outcome
    from odfabric.wiring.operations.doctor import findings_of

    output.progress("checking")
    try:
        settings = _settings(given)
    except InvalidRequest as error:
        if given.node is not None:
            raise
        seen = f"{error.place}: {error.message}"
        return [Finding(name="settings", outcome=Outcome.BROKEN, seen=seen, remedy=error.hint)]
    finally:
        output.clear()
    return findings_of(settings)
