"""Rules of flows as JSON values, in requests, manifests and the database alike.

`{"trigger": {"every": "15m"}}`, `{"trigger": {"cron": "30 6 * * 1-5", "timeZone": "Europe/Berlin"}}` or
`{"trigger": {"onInputs": {"records": 100, "wait": "5m"}}}`, with `retry` (`attempts`, `pause`, `backoff`), `overlap`, `latestStart`,
`stopAfterFailures` (null: never) and `fetchUncacheable` as one wants them. Not here: what the times mean (`domain.flows.flow_schedule`).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.manifests.durations import duration_text, parse_duration
from odfabric.model.jobs.flow import (
    FAILURES_DEFAULT,
    Backoff,
    Cron,
    Every,
    FlowRule,
    Overlap,
    Reactive,
    RetryPolicy,
    Trigger,
)

ATTEMPTS_MAX = 20
FAILURES_MAX = 100
RECORDS_MAX = 1_000_000_000
WAIT_S_MAX = 86_400
_TRIGGER_HINT = "write one of `every`, `cron` (with `timeZone`) and `onInputs`"
_MEMBERS = frozenset(
    ("trigger", "retry", "overlap", "latestStart", "stopAfterFailures", "fetchUncacheable", "recompute")
)  # of a rule
_Choice = TypeVar("_Choice", bound=Enum)


def rule_value(rule: FlowRule) -> dict[str, object]:
    """The rule with all its members."""
    retry = rule.retry
    return {
        "trigger": trigger_value(rule.trigger),
        "retry": {
            "attempts": retry.attempts_max,
            "pause": duration_text(retry.pause_s),
            "backoff": retry.backoff.value,
        },
        "overlap": rule.overlap.value,
        "latestStart": None if rule.latest_start_s is None else duration_text(rule.latest_start_s),
        "stopAfterFailures": rule.failures_max,
        "fetchUncacheable": rule.fetch_uncacheable,
        **({"recompute": True} if rule.recompute else {}),
    }


def trigger_value(trigger: Trigger) -> dict[str, object]:
    """The trigger as a JSON value."""
    match trigger:
        case Every(seconds=seconds):
            return {"every": duration_text(seconds)}
        case Cron():
            return {"cron": trigger.expression, "timeZone": trigger.zone}
        case Reactive():
            return {"onInputs": {"records": trigger.records_min, "wait": duration_text(trigger.wait_s)}}


def parse_rule(value: object) -> FlowRule:
    """The rule of a JSON value; what is left out has its default.

    Raises InvalidRequest that names the member.
    """
    members = _object(value, "rule", _MEMBERS)
    if "trigger" not in members:
        raise _refusal("trigger", "is missing", hint=_TRIGGER_HINT)
    latest, failures = members.get("latestStart"), members.get("stopAfterFailures", FAILURES_DEFAULT)
    return FlowRule(
        trigger=_trigger(members["trigger"]),
        retry=_retry(members.get("retry", {})),
        overlap=_choice(Overlap, members.get("overlap", Overlap.QUEUE_ONE.value), "overlap"),
        latest_start_s=None if latest is None else _duration(latest, "latestStart"),
        failures_max=None if failures is None else _number(failures, "stopAfterFailures", least=1, most=FAILURES_MAX),
        fetch_uncacheable=_flag(members, "fetchUncacheable"),
        recompute=_flag(members, "recompute"),
    )


def _flag(members: Mapping[str, Any], name: str) -> bool:
    value = members.get(name, False)
    if not isinstance(value, bool):
        raise _refusal(name, "is true or false")
    return value


def _trigger(value: object) -> Trigger:
    members = _object(value, "trigger", frozenset(("every", "cron", "timeZone", "onInputs")))
    match members:
        case {"every": every, **rest} if not rest:
            return Every(_duration(every, "trigger.every", least=1))
        case {"cron": str(expression), "timeZone": str(zone), **rest} if not rest:
            return Cron(expression, zone)
        case {"cron": str(expression), **rest} if not rest:
            return Cron(expression)
        case {"onInputs": inputs, **rest} if not rest:
            return _reactive(inputs)
        case _:
            raise _refusal("trigger", "is none of a flow", hint=_TRIGGER_HINT)


def _reactive(value: object) -> Reactive:
    members = _object(value, "trigger.onInputs", frozenset(("records", "wait")))
    return Reactive(
        records_min=_number(members.get("records", 0), "trigger.onInputs.records", least=0, most=RECORDS_MAX),
        wait_s=_duration(members.get("wait", "0s"), "trigger.onInputs.wait", most=WAIT_S_MAX),
    )


def _retry(value: object) -> RetryPolicy:
    members = _object(value, "retry", frozenset(("attempts", "pause", "backoff")))
    default = RetryPolicy()
    return RetryPolicy(
        attempts_max=_number(
            members.get("attempts", default.attempts_max), "retry.attempts", least=0, most=ATTEMPTS_MAX
        ),
        pause_s=_duration(
            members.get("pause", duration_text(default.pause_s)), "retry.pause", least=1, most=WAIT_S_MAX
        ),
        backoff=_choice(Backoff, members.get("backoff", default.backoff.value), "retry.backoff"),
    )


def _object(value: object, field: str, known: frozenset[str]) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise _refusal(field, "is an object")
    for name in value:
        if name not in known:
            raise _refusal(
                f"{field}.{name}" if field != "rule" else str(name),
                "is not known",
                hint=f"known are {', '.join(sorted(known))}",
            )
    return value


def _number(value: object, field: str, *, least: int, most: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise _refusal(field, f"is a number from {least} to {most}")
    return value


def _duration(value: object, field: str, *, least: int = 0, most: int = 366 * 86_400) -> int:
    if not isinstance(value, str):
        raise _refusal(field, "is a text such as `15m`")
    try:
        seconds = parse_duration(value)
    except InvalidRequest as error:
        raise _refusal(field, error.message, hint=error.hint) from error
    if not least <= seconds <= most:
        raise _refusal(field, f"is from {duration_text(least)} to {duration_text(most)}")
    return seconds


def _choice(choices: type[_Choice], value: object, field: str) -> _Choice:
    try:
        return choices(value)
    except ValueError:
        raise _refusal(field, f"is one of {', '.join(str(each.value) for each in choices)}") from None


def _refusal(field: str, what: str, *, hint: str | None = None) -> InvalidRequest:
    return InvalidRequest(f"`{field}` {what}", place=Place(field=field), hint=hint)
