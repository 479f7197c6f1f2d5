"""`odf doctor`: look at what surrounds a node, and say what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from odfabric.cli.context import CommandContext, context_of
from odfabric.cli.output import Output
from odfabric.cli.recovery_commands import settings_on_stores
from odfabric.errors import InvalidRequest

if TYPE_CHECKING:
    from odfabric.model.finding import Finding

BROKEN = 1
SIGNS = {"ok": "ok      ", "warning": "warning ", "broken": "BROKEN  "}


def register(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command("doctor")(doctor)


def doctor(
    context: typer.Context,
    as_json: bool = typer.Option(False, "--json", help="The same as -o json"),
) -> None:
    """Check what surrounds the node of this machine: disk, files, clock, database, bucket, Redis, engine, workers.

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


def _findings(given: CommandContext, output: Output) -> Sequence[Finding]:
    """Settings that cannot be read are a finding, too: nothing else can be looked at then."""
    from odfabric.model.finding import Finding, Outcome
    from odfabric.wiring.doctor import findings_of

    if given.node is not None:
        raise InvalidRequest("a doctor looks at the machine that it runs on", hint="run it there, without --node")
    output.progress("checking")
    try:
        settings = settings_on_stores(given)
    except InvalidRequest as error:
        seen = f"{error.place}: {error.message}"
        return [Finding(name="settings", outcome=Outcome.BROKEN, seen=seen, remedy=error.hint)]
    finally:
        output.clear()
    return findings_of(settings)
