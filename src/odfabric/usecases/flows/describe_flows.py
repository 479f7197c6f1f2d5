"""Flows and runs as JSON values, and what a run waits for as a sentence.

What services, pages and the command line show.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

from odfabric.domain.flows.flow_readiness import (
    Missed,
    Readiness,
    Start,
    WaitForInputs,
    WaitForRecords,
    WaitForRun,
    WaitForTurn,
    WaitUntil,
    WaitWhilePaused,
    WaitWhileStopped,
)
from odfabric.formats.manifests.durations import duration_text
from odfabric.formats.manifests.flow_document import cause_value
from odfabric.formats.manifests.flow_rule import rule_value
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.flow import Cron, Every, Flow, FlowRun, Reactive, Trigger
from odfabric.usecases.flows.change_flows import SeenFlow

Named = Callable[[DatasetId], str | None]
"""The name of a dataset, None if the reader may not know it."""


def flow_value(seen: SeenFlow, *, named: Named) -> dict[str, object]:
    """A flow with its newest runs."""
    flow = seen.flow
    return {
        "id": flow.id,
        "dataset": str(flow.dataset_id),
        "alias": str(seen.entry.alias),
        **flow_members(flow),
        "waits": None if seen.waits is None else wait_value(seen.waits, named=named),
        "runs": [run_value(run, named=named) for run in seen.runs],
    }


def flow_members(flow: Flow) -> dict[str, object]:
    """What a flow says of itself."""
    stop = flow.stop
    return {
        "kind": flow.kind.value,
        "rule": rule_value(flow.rule),
        "summary": trigger_text(flow.rule.trigger),
        "isDefault": flow.is_default,
        "status": "stopped" if stop else "paused" if flow.paused else "active",
        "stopped": None if stop is None else {"reason": stop.reason, "at": str(stop.at)},
        "failures": flow.failures,
        "nextAt": None if flow.next_at is None else str(flow.next_at),
        "version": flow.version,
    }


def run_value(run: FlowRun, *, named: Named) -> dict[str, object]:
    """A run."""
    return {
        "id": run.id,
        "flow": run.flow_id,
        "dataset": str(run.dataset_id),
        "status": run.status.value,
        "attempt": run.attempt,
        "job": run.job_id,
        "causes": [_cause(cause_value(cause), cause.dataset, named) for cause in run.causes],
        "causeCount": run.cause_count,
        "dueAt": str(run.due_at),
        "createdAt": str(run.created_at),
        "startedAt": None if run.started_at is None else str(run.started_at),
        "endedAt": None if run.ended_at is None else str(run.ended_at),
        "result": None if run.result is None else json.loads(run.result),
        "error": None if run.error is None else json.loads(run.error),
    }


def wait_value(waits: Readiness, *, named: Named) -> dict[str, object]:
    """Why a run waits: a code, a sentence, until when, and what the sentence names.

    Until when if that is known; what it names may be counted only.
    """
    match waits:
        case Start():
            return _wait("starting", "it starts now")
        case Missed():
            return _wait("late", "it is too late to start")
        case WaitUntil(at=at):
            return _wait("time", f"until {at}", until=at)
        case WaitForRecords(waiting=waiting, needed=needed, at=at):
            until = f", or until {at}" if at else ""
            text = f"{waiting} of {needed} new records are there{until}"
            return {**_wait("records", text, until=at), "records": waiting, "needed": needed}
        case WaitForInputs(datasets=datasets, at=at):
            known = [name for name in map(named, datasets) if name is not None]
            hidden = ["a dataset that you may not read"] if len(known) < len(datasets) else []
            return {**_wait("inputs", f"{', '.join([*known, *hidden])} runs first", until=at), "datasets": known}
        case WaitForRun():
            return _wait("run", "the run before has not ended")
        case WaitWhilePaused():
            return _wait("paused", "the flow is paused")
        case WaitWhileStopped(stop=stop):
            return _wait("stopped", f"the flow has stopped: {stop.reason}")
        case WaitForTurn(running=running):
            return {**_wait("turn", f"{running} other runs are at work, as many as may be at once"), "runs": running}


def _wait(reason: str, text: str, *, until: Instant | None = None) -> dict[str, object]:
    return {"reason": reason, "text": text, **({} if until is None else {"until": str(until)})}


def trigger_text(trigger: Trigger) -> str:
    """When a flow runs, in words."""
    match trigger:
        case Every(seconds=seconds):
            return f"every {duration_text(seconds)}"
        case Cron():
            return f"cron {trigger.expression} ({trigger.zone})"
        case Reactive(records_min=0, wait_s=0):
            return "when inputs change"
        case Reactive(records_min=0, wait_s=wait_s):
            return f"{duration_text(wait_s)} after inputs change"
        case Reactive(records_min=records, wait_s=0):
            return f"when inputs have {records} new records"
        case Reactive():
            return f"when inputs have {trigger.records_min} new records, or after {duration_text(trigger.wait_s)}"


def _cause(members: Mapping[str, object], dataset: DatasetId | None, named: Named) -> dict[str, object]:
    name = None if dataset is None else named(dataset)
    hidden = {member: value for member, value in members.items() if member != "dataset"}
    return {**hidden, **({} if name is None else {"dataset": str(dataset), "alias": name})}
