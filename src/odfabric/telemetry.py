"""Logging and spans of the node's processes.

One line a record on standard error, control characters escaped, no secrets; and what a line belongs to.

Owns format and level, and the ids of the work that a thread or task does (request, trace, job, dataset, block), which its lines carry. What
is logged never holds tokens, keys or bodies, because errors do not carry them.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from odfabric.errors import OdfError
from odfabric.formats.operations.trace_context import SPAN_BYTES, TRACE_BYTES, TraceContext, new_trace
from odfabric.model.node.span import FinishedSpan, SpanKind

IDS = ("request", "trace", "job", "dataset", "block", "delivery")
"""Ids that lines carry, in this order; a record may give some itself as `extra`."""
JSON_FORMAT = "json"

_ids: ContextVar[Mapping[str, str]] = ContextVar("odfabric_ids", default={})  # noqa: B039  # it is never changed in place
_trace: ContextVar[TraceContext | None] = ContextVar("odfabric_trace", default=None)


_SHARED_DIGITS = 8


@dataclass(frozen=True, slots=True)
class _Recording:
    sink: Callable[[FinishedSpan], None]
    share: float


_recording: _Recording | None = None


@contextmanager
def working_on(*, trace: TraceContext | None = None, **ids: str | None) -> Iterator[None]:
    """Lines that are logged within carry these ids, beside those from outside.

    What is None is left as it is.
    """
    given = {name: value for name, value in ids.items() if value is not None}
    if trace is not None:
        given["trace"] = trace.trace_id
    before = _ids.set({**_ids.get(), **given}), _trace.set(trace or _trace.get())
    try:
        yield
    finally:
        _ids.reset(before[0])
        _trace.reset(before[1])


def present_trace() -> TraceContext | None:
    """The trace that this thread or task works for."""
    return _trace.get()


def next_traceparent() -> str | None:
    """The header for a call that is made now, with a span of its own.

    None outside of traces.
    """
    trace = _trace.get()
    return None if trace is None else str(trace.child(secrets.token_bytes(SPAN_BYTES)))


@contextmanager
def record_spans(sink: Callable[[FinishedSpan], None], *, share: float = 1.0) -> Iterator[None]:
    """Within, all threads and tasks give their spans to `sink`.

    Of traces that begin here a `share`.
    """
    global _recording  # one recording for a process, as for its logs
    before, _recording = _recording, _Recording(sink, share)
    try:
        yield
    finally:
        _recording = before


def is_recorded(trace_id: str) -> bool:
    """Whether a trace that begins with this id is recorded; the same in all processes."""
    return _recording is not None and int(trace_id[-_SHARED_DIGITS:], 16) < _recording.share * 16**_SHARED_DIGITS


@contextmanager
def span(name: str, *, kind: SpanKind = SpanKind.INTERNAL, within: TraceContext | None = None) -> Iterator[None]:
    """A span in the present trace, `within` another one, or in a trace of its own.

    It has the ids of log lines.
    """
    parent = within or _trace.get()
    if _recording is None:
        with working_on(trace=parent):
            yield
        return
    if parent is None:
        begun = new_trace(secrets.token_bytes(TRACE_BYTES + SPAN_BYTES))
        own = replace(begun, is_sampled=is_recorded(begun.trace_id))
    else:
        own = parent.child(secrets.token_bytes(SPAN_BYTES))
    began, error = time.time_ns(), None
    try:
        with working_on(trace=own):
            yield
    except OdfError as failed:
        error = failed.code
        raise
    except BaseException as failed:
        error = type(failed).__name__
        raise
    finally:
        finish_span(
            name,
            own,
            kind=kind,
            parent_id=parent.span_id if parent else None,
            began_ns=began,
            error=error,
            attributes={f"odf.{name}": value for name, value in _ids.get().items() if name != "trace"},
        )


def finish_span(
    name: str,
    own: TraceContext,
    *,
    kind: SpanKind,
    parent_id: str | None,
    began_ns: int,
    error: str | None = None,
    attributes: Mapping[str, str | int] | None = None,
) -> None:
    """Record a span that ends now, if there is a recorder and its trace is recorded."""
    recording = _recording
    if recording is not None and own.is_sampled:
        recording.sink(
            FinishedSpan(
                name=name,
                kind=kind,
                trace_id=own.trace_id,
                span_id=own.span_id,
                parent_id=parent_id,
                began_ns=began_ns,
                ended_ns=time.time_ns(),
                attributes=attributes or {},
                error=error,
            )
        )


def ids_of(record: logging.LogRecord) -> dict[str, str]:
    """What a record belongs to."""
    around = _ids.get()
    found = {name: getattr(record, name, None) or around.get(name) for name in IDS}
    return {name: str(value) for name, value in found.items() if value is not None}


class _OneLine(logging.Formatter):
    """Text that strangers chose must not be able to forge a line or drive a terminal."""

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        ids = " ".join(f"{name}={value}" for name, value in ids_of(record).items())
        return printable_line(f"{text} [{ids}]" if ids else text)


class _JsonLine(logging.Formatter):
    """One JSON object a record, ASCII only, for programs that gather logs."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        told = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "process": self._process,
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **ids_of(record),
        }
        if record.exc_info:
            told["exception"] = self.formatException(record.exc_info)
        return json.dumps(told)


def printable_line(text: str) -> str:
    """Text on one line, with escapes for what is not printable."""
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode() for character in text
    )


def log_formatter(process: str, *, form: str) -> logging.Formatter:
    """Of lines for people (`text`) or programs (`json`)."""
    if form == JSON_FORMAT:
        return _JsonLine(process)
    return _OneLine(f"%(asctime)s {process} %(levelname)s %(name)s: %(message)s")


def start_logging(process: str) -> None:
    """Send records of this process to standard error.

    `ODF_LOG_LEVEL` sets the level (default INFO). `ODF_LOG_FORMAT` is read here because what is wrong with settings is logged, too.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(log_formatter(process, form=os.environ.get("ODF_LOG_FORMAT", "text").lower()))
    logging.basicConfig(level=os.environ.get("ODF_LOG_LEVEL", "INFO").upper(), handlers=[handler], force=True)
    # Their request lines would repeat URLs, and URLs may hold what is not ours to log.
    for chatty in ("httpx", "httpcore", "alembic", "py4j"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
