"""Flows and runs as templates show them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from fastapi import Request

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.flow import Cron, Every, FlowRun, Reactive
from odfabric.usecases.flows.change_flows import SeenFlow
from odfabric.usecases.flows.describe_flows import flow_members, wait_value
from odfabric_api.auth import Subject
from odfabric_api.flow_names import naming

Named = Callable[[DatasetId], str | None]


def flow_views(request: Request, caller: Subject, found: list[SeenFlow]) -> list[dict[str, Any]]:
    """Values of flows for templates."""
    named = naming(request, caller)
    return [_view(seen, named) for seen in found]


def _view(seen: SeenFlow, named: Named) -> dict[str, Any]:
    flow = seen.flow
    members = flow_members(flow)
    waits = None if seen.waits is None else dict(wait_value(seen.waits, named=named))
    if waits is not None and "until" in waits:
        waits["until"] = Instant.parse(str(waits["until"]))
    return {
        "entry": seen.entry,
        "flow": flow,
        "kind": flow.kind.value,
        "status": members["status"],
        "rule": members["rule"],
        "trigger": trigger_values(flow.rule.trigger),
        "waits": waits,
        "runs": [run_view(run, named) for run in seen.runs],
    }


def trigger_values(trigger: Every | Cron | Reactive) -> dict[str, Any]:
    """What the sentence about a trigger says: its `form`, and its numbers."""
    match trigger:
        case Every(seconds=seconds):
            return {"form": "every", "seconds": seconds}
        case Cron():
            return {"form": "cron", "expression": trigger.expression, "zone": trigger.zone}
        case Reactive():
            return {"form": "inputs", "records": trigger.records_min, "seconds": trigger.wait_s}


def run_view(run: FlowRun, named: Named) -> dict[str, Any]:
    """Values of a run; `problem` is the document of what its last attempt failed with."""
    result = json.loads(run.result) if run.result else {}
    causes = [
        {"kind": cause.kind.value, "who": cause.who, "alias": named(cause.dataset) if cause.dataset else None}
        for cause in run.causes
    ]
    return {
        "run": run,
        "status": run.status.value,
        "causes": [each for number, each in enumerate(causes) if each not in causes[:number]],
        "result": result,
        "problem": json.loads(run.error) if run.error else None,
        "seconds": _seconds(run),
    }


def _seconds(run: FlowRun) -> float | None:
    if run.started_at is None or run.ended_at is None:
        return None
    return max(0.0, (run.ended_at.epoch_ns - run.started_at.epoch_ns) / 1e9)
