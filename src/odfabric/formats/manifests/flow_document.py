"""Flows and runs as JSON texts, kept beside the columns of the database."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.manifests.flow_rule import parse_rule, rule_value
from odfabric.model.instant import Instant
from odfabric.model.jobs.flow import Cause, CauseKind, FlowRule, FlowStop


def rule_text(rule: FlowRule) -> str:
    """A rule."""
    return json.dumps(rule_value(rule))


def parse_rule_text(text: str) -> FlowRule:
    """The rule of its text."""
    return parse_rule(json.loads(text))


def stop_text(stop: FlowStop | None) -> str | None:
    """Why a flow stopped."""
    if stop is None:
        return None
    return json.dumps(
        {"reason": stop.reason, "at": str(stop.at), "head": None if stop.head is None else str(stop.head)}
    )


def parse_stop_text(text: str | None) -> FlowStop | None:
    """Why a flow stopped, of its text."""
    if text is None:
        return None
    members: Mapping[str, Any] = json.loads(text)
    head = None if members["head"] is None else parse_multihash(members["head"])
    return FlowStop(members["reason"], Instant.parse(members["at"]), head)


def cause_value(cause: Cause) -> dict[str, object]:
    """A cause with those of its members that it has."""
    members = {
        "kind": cause.kind.value,
        "at": str(cause.at),
        "dataset": None if cause.dataset is None else str(cause.dataset),
        "who": cause.who,
    }
    return {name: value for name, value in members.items() if value is not None}


def causes_text(causes: tuple[Cause, ...]) -> str:
    """The causes of a run."""
    return json.dumps([cause_value(cause) for cause in causes])


def parse_causes_text(text: str) -> tuple[Cause, ...]:
    """The causes of a run, of their text."""
    return tuple(_cause(members) for members in json.loads(text))


def _cause(members: Mapping[str, Any]) -> Cause:
    return Cause(
        kind=CauseKind(members["kind"]),
        at=Instant.parse(members["at"]),
        dataset=parse_dataset_id(members["dataset"]) if "dataset" in members else None,
        who=members.get("who"),
    )
