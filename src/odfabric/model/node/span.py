"""A piece of work in a trace: what, from when to when, within which other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


class SpanKind(Enum):
    """Where the work stands between services, in OpenTelemetry's words."""

    SERVER = "server"
    CLIENT = "client"
    INTERNAL = "internal"


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedSpan:
    """Ids are hexadecimal, times nanoseconds since 1970.

    `error` is a stable code, never a text that may hold data.
    """

    name: str
    kind: SpanKind
    trace_id: str
    span_id: str
    parent_id: str | None
    began_ns: int
    ended_ns: int
    attributes: Mapping[str, str | int] = field(default_factory=dict)
    error: str | None = None
