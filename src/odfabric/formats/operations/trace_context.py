"""Trace context: the header `traceparent` of the W3C Recommendation.

Calls of several services are one trace by it.

Owns its grammar. Invariant: what is read is written again for our own calls only as version 00, with a span of our own. Of other versions the
members that version 00 has are taken, as the Recommendation asks. Source: https://www.w3.org/TR/trace-context/, section 3.2.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

HEADER = "traceparent"
SPAN_BYTES = 8
TRACE_BYTES = 16
SAMPLED = 1

_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?", re.ASCII)
_VERSION = "00"
_NEVER = "ff"
_LENGTH_MAX = 512


@dataclass(frozen=True, slots=True)
class TraceContext:
    """A place in a trace: ids in hexadecimal, and whether it is recorded."""

    trace_id: str
    span_id: str
    is_sampled: bool = False

    def __str__(self) -> str:
        return f"{_VERSION}-{self.trace_id}-{self.span_id}-{int(self.is_sampled):02x}"

    def child(self, span: bytes) -> TraceContext:
        """A span of ours in the same trace; `span` are 8 random bytes."""
        return replace(self, span_id=_span_id(span))


def parse_traceparent(text: str) -> TraceContext | None:
    """The context of a header, None for an invalid one, which is to be ignored."""
    found = _FORM.fullmatch(text) if len(text) <= _LENGTH_MAX else None
    if found is None or found[1] == _NEVER or (found[1] == _VERSION and found[5] is not None):
        return None
    if not int(found[2], 16) or not int(found[3], 16):
        return None
    return TraceContext(found[2], found[3], bool(int(found[4], 16) & SAMPLED))


def new_trace(random: bytes) -> TraceContext:
    """The beginning of a trace, of 24 random bytes.

    Raises ValueError for another number.
    """
    if len(random) != TRACE_BYTES + SPAN_BYTES:
        raise ValueError(f"a trace begins with {TRACE_BYTES + SPAN_BYTES} random bytes")
    trace = random[:TRACE_BYTES]
    return TraceContext((trace if any(trace) else b"\1" * TRACE_BYTES).hex(), _span_id(random[TRACE_BYTES:]))


def trace_of(name: str, span: bytes) -> TraceContext:
    """The trace of something that is tried several times, the same for each attempt.

    `span` are 8 random bytes.
    """
    digest = hashlib.sha256(name.encode()).digest()
    return new_trace(digest[:TRACE_BYTES] + span)


def _span_id(span: bytes) -> str:
    if len(span) != SPAN_BYTES:
        raise ValueError(f"a span has {SPAN_BYTES} bytes")
    return (span if any(span) else b"\1" * SPAN_BYTES).hex()
