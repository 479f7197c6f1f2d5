"""Logging of the node's processes: one line a record on standard error, control characters escaped, no secrets; and what a line belongs to.

Owns format and level, and the ids of the work that a thread or task does (request, trace, job, dataset, block), which its lines carry. What
is logged never holds tokens, keys or bodies, because errors do not carry them.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

from odfabric.formats.trace_context import SPAN_BYTES, TraceContext

IDS = ("request", "trace", "job", "dataset", "block", "delivery")
"""Ids that lines carry, in this order; a record may give some itself as `extra`."""
JSON_FORMAT = "json"

_ids: ContextVar[Mapping[str, str]] = ContextVar("odfabric_ids", default={})  # noqa: B039  # it is never changed in place
_trace: ContextVar[TraceContext | None] = ContextVar("odfabric_trace", default=None)


@contextmanager
def working_on(*, trace: TraceContext | None = None, **ids: str | None) -> Iterator[None]:
    """Lines that are logged within carry these ids, beside those from outside; what is None is left as it is."""
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
    """The header for a call that is made now, with a span of its own; None outside of traces."""
    trace = _trace.get()
    return None if trace is None else str(trace.child(secrets.token_bytes(SPAN_BYTES)))


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
