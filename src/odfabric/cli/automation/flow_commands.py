"""Verbs below `odf flow`: what runs by itself, when, why, and what came of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import typer

from odfabric.cli.backends.backend import source_text
from odfabric.cli.context import backend_of, context_of
from odfabric.cli.output import Output
from odfabric.errors import InvalidRequest
from odfabric.formats.manifests.flow_rule import rule_value

app = typer.Typer(help="Flows: what runs by itself, when, and why.", no_args_is_help=True)

LOOK_EVERY_S = 0.3


class Kind(StrEnum):
    """Flows of a dataset."""

    POLL = "poll"
    TRANSFORM = "transform"
    MIRROR = "mirror"
    VERIFY = "verify"


REF = typer.Argument(help="Name, account/name or did:odf:... of a dataset")
KIND = typer.Argument(help="poll, transform, mirror or verify")
RUN = typer.Argument(help="Id of a run, as `odf flow list DATASET` shows it")


@app.command("list")
def list_flows(
    context: typer.Context,
    ref: str = typer.Argument("", help="A dataset, whose runs are shown too; default: all flows"),
) -> None:
    """What runs, waits, failed, and why."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        flows = backend.flows.listed(ref or None)
    if output.as_json:
        output.document(flows)
        return
    output.rows([_flow_row(flow) for flow in flows])
    if ref:
        for flow in flows:
            output.rows([_run_row(run) for run in flow["runs"]], title=f"\nruns of {flow['kind']}")


@app.command("set")
def set_flow(
    context: typer.Context,
    ref: str = REF,
    kind: Kind = KIND,
    every: str = typer.Option("", help="So long after the last run started, such as 15m"),
    cron: str = typer.Option("", help="Minute, hour, day, month and weekday, such as '30 6 * * 1-5'"),
    time_zone: str = typer.Option("UTC", help="Time zone of --cron, such as Europe/Berlin"),
    on_inputs: bool = typer.Option(
        False, "--on-inputs", help="When inputs change: at once, unless --records or --wait say more"
    ),
    records: int = typer.Option(0, min=0, help="With --on-inputs: as soon as so many records wait"),
    wait: str = typer.Option("0s", help="With --on-inputs: so long after the first record came"),
    attempts: int = typer.Option(3, min=0, max=20, help="Attempts after an outside failure"),
    pause: str = typer.Option("10s", help="Pause before the first of them"),
    backoff: str = typer.Option(
        "exponential-with-jitter", help="How pauses grow: fixed, linear, exponential, exponential-with-jitter"
    ),
    skip_overlap: bool = typer.Option(False, "--skip-overlap", help="No run while the one before has not ended"),
    latest_start: str = typer.Option("", help="A scheduled run that is later than this is missed"),
    stop_after: int = typer.Option(5, min=0, max=100, help="Stop after so many failed runs in a row; 0: never"),
    fetch_uncacheable: bool = typer.Option(False, help="Poll a source that cannot tell what is new"),
    recompute: bool = typer.Option(
        False, "--recompute", help="If the history of an input was rewritten, drop the rows and compute them again"
    ),
) -> None:
    """Decide when a flow runs."""
    triggers: list[dict[str, Any]] = []
    if every:
        triggers.append({"every": every})
    if cron:
        triggers.append({"cron": cron, "timeZone": time_zone})
    if on_inputs:
        triggers.append({"onInputs": {"records": records, "wait": wait}})
    if len(triggers) != 1:
        raise InvalidRequest("a flow has one trigger", hint="give one of --every, --cron and --on-inputs")
    rule = {
        "trigger": triggers[0],
        "retry": {"attempts": attempts, "pause": pause, "backoff": backoff},
        "overlap": "skip" if skip_overlap else "queue-one",
        "latestStart": latest_start or None,
        "stopAfterFailures": stop_after or None,
        "fetchUncacheable": fetch_uncacheable,
        **({"recompute": True} if recompute else {}),
    }
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        flow = backend.flows.set(ref, kind.value, rule)
    output.result(flow, _flow_line(flow))


@app.command("apply")
def apply(context: typer.Context, path: str = typer.Argument(help="File of manifests; `-` is standard input")) -> None:
    """Set the flows of a manifest file (documents of the kind odfabric/Flow)."""
    from odfabric.formats.manifests.flow_manifest import parse_flow_manifests
    from odfabric.formats.manifests.manifest_yaml import MANIFEST_LIMITS

    text, shown = source_text(path, bytes_max=MANIFEST_LIMITS.bytes_max)
    manifests = list(parse_flow_manifests(text, file=shown, limits=MANIFEST_LIMITS))
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        flows = [backend.flows.set(each.dataset, each.kind.value, rule_value(each.rule)) for each in manifests]
    output.result(flows, "\n".join(_flow_line(flow) for flow in flows))


@app.command("pause")
def pause(context: typer.Context, ref: str = REF, kind: Kind = KIND) -> None:
    """Start no runs any more; one that runs goes on."""
    _change(context, ref, kind, paused=True)


@app.command("resume")
def resume(context: typer.Context, ref: str = REF, kind: Kind = KIND) -> None:
    """Start runs again, also after failures have stopped the flow."""
    _change(context, ref, kind, paused=False)


@app.command("remove")
def remove(context: typer.Context, ref: str = REF, kind: Kind = KIND) -> None:
    """Remove a flow and the list of its runs; what they committed stays."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        removed = backend.flows.remove(ref, kind.value)
    output.result(removed, f"removed {removed['kind']} of {removed['alias']}")


@app.command("run")
def run(
    context: typer.Context,
    ref: str = REF,
    kind: Kind = KIND,
    follow: bool = typer.Option(False, "--follow", help="Show its progress until it has ended"),
) -> None:
    """Have a flow run as soon as possible, also if it is paused."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        started = backend.flows.run(ref, kind.value)
        if follow:
            _follow(backend.flows, started["id"], output)
        else:
            output.result(started, f"run {started['id']} is {started['status']}")


@app.command("logs")
def logs(
    context: typer.Context,
    run_id: str = RUN,
    follow: bool = typer.Option(False, "--follow", help="Go on until the run has ended"),
) -> None:
    """What a run did: its causes, progress and outcome."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        if follow:
            _follow(backend.flows, run_id, output)
        else:
            found = backend.flows.get_run(run_id)
            output.result(found, _run_text(found))


@app.command("cancel")
def cancel(context: typer.Context, run_id: str = RUN) -> None:
    """End a run: one that waits at once, one that is at work at its next sign of life."""
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        found = backend.flows.cancel(run_id)
    output.result(found, f"run {found['id']} is {found['status']}")


def _change(context: typer.Context, ref: str, kind: Kind, *, paused: bool) -> None:
    output = context_of(context).output
    with backend_of(context_of(context), output) as backend:
        flow = backend.flows.change(ref, kind.value, paused=paused)
    output.result(flow, _flow_line(flow))


def _follow(flows: Any, run_id: str, output: Output) -> None:
    """Show where a run is until it has ended."""
    while True:
        found = flows.get_run(run_id)
        if found["status"] not in ("waiting", "running"):
            output.clear()
            output.result(found, _run_text(found))
            return
        stage = flows.progress(found["job"]) if found["status"] == "running" and found["job"] else {}
        output.progress(f"{found['status']} {stage.get('stage', '')}".rstrip())
        time.sleep(LOOK_EVERY_S)


def _flow_line(flow: Mapping[str, Any]) -> str:
    following = f", next at {flow['nextAt']}" if flow["nextAt"] else ""
    return f"{flow['kind']} of {flow['alias']}: {flow['summary']} ({flow['status']}{following})"


def _flow_row(flow: Mapping[str, Any]) -> dict[str, object]:
    last = flow["runs"][0] if flow["runs"] else None
    why = flow["stopped"]["reason"] if flow["stopped"] else flow["waits"]["text"] if flow["waits"] else ""
    return {
        "dataset": flow["alias"],
        "flow": flow["kind"],
        "when": flow["summary"],
        "status": flow["status"],
        "last run": last["status"] if last else "",
        "next": flow["nextAt"] or "",
        "why": why,
    }


def _run_row(run: Mapping[str, Any]) -> dict[str, object]:
    return {
        "run": run["id"],
        "status": run["status"],
        "attempt": run["attempt"],
        "cause": _causes(run),
        "started": run["startedAt"] or "",
        "ended": run["endedAt"] or "",
        "outcome": _outcome(run),
    }


def _run_text(run: Mapping[str, Any]) -> str:
    lines = [f"run {run['id']}: {run['status']}, attempt {run['attempt']}", f"  cause    {_causes(run)}"]
    lines += [f"  {name:8} {run[member]}" for name, member in _TIMES if run[member]]
    outcome = _outcome(run)
    return "\n".join([*lines, *([f"  outcome  {outcome}"] if outcome else [])])


_TIMES = (("due", "dueAt"), ("started", "startedAt"), ("ended", "endedAt"), ("job", "job"))


def _causes(run: Mapping[str, Any]) -> str:
    """The first causes in words, and how many there are."""
    words = {"schedule": "schedule", "change": "its own change", "hand": "by hand"}
    told = []
    for cause in run["causes"]:
        who = f" ({cause['who']})" if cause.get("who") else ""
        told.append(words.get(cause["kind"], f"input {cause.get('alias', '')}".rstrip()) + who)
    shown = list(dict.fromkeys(told))[:3]
    more = f", {run['causeCount']} in all" if run["causeCount"] > len(shown) else ""
    return ", ".join(shown) + more


def _outcome(run: Mapping[str, Any]) -> str:
    if run["error"] and run["status"] != "succeeded":
        return str(run["error"].get("detail") or run["error"].get("message"))
    result = run["result"] or {}
    if result.get("upToDate"):
        poll = result.get("poll") or {}
        return f"nothing new: {poll['message']}" if poll.get("outcome") == "uncacheable" else "nothing new"
    if "rows" in result:
        return f"{result['rows']} rows"
    return "verified" if result.get("ok") else ""
