"""Log lines: one a record, for people or programs, with their work's ids."""

from __future__ import annotations

import json
import logging
import sys

import pytest

from odfabric.formats.operations.trace_context import TraceContext, parse_traceparent
from odfabric.telemetry import log_formatter, next_traceparent, present_trace, working_on

TRACE = TraceContext("4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", True)


def record(message: str = "done: %s", *, bug: bool = False, **extra: str) -> logging.LogRecord:
    error = None
    if bug:
        try:
            raise ValueError("wrong\nline")
        except ValueError:
            error = sys.exc_info()
    made = logging.LogRecord("odfabric.x", logging.WARNING, "x.py", 1, message, ("a\nb\u202e",), error)
    vars(made).update(extra)
    return made


def test_a_line_for_people_ends_with_its_ids() -> None:
    with working_on(request="r1", trace=TRACE), working_on(job="j1", dataset=None):
        line = log_formatter("api", form="text").format(record(block="f16"))
    assert line.endswith(f"done: a\\nb\\u202e [request=r1 trace={TRACE.trace_id} job=j1 block=f16]")
    assert " api WARNING odfabric.x: " in line
    assert log_formatter("api", form="text").format(record()).endswith("b\\u202e"), "outside there are none"


def test_a_line_for_programs_is_one_object() -> None:
    with working_on(request="r1", job="j1"):
        line = log_formatter("worker", form="json").format(record(bug=True, job="j2", dataset="d1"))
    assert "\n" not in line
    assert line.isascii()
    told = json.loads(line)
    exception = told.pop("exception")
    assert exception.startswith("Traceback")
    assert told.pop("time").endswith("+00:00")
    assert told == {
        "process": "worker",
        "level": "WARNING",
        "logger": "odfabric.x",
        "message": "done: a\nb\u202e",
        "request": "r1",
        "job": "j2",
        "dataset": "d1",
    }


def test_calls_are_spans_of_the_trace_around_them() -> None:
    assert (present_trace(), next_traceparent()) == (None, None)
    with working_on(trace=TRACE):
        assert present_trace() == TRACE
        calls = [parse_traceparent(next_traceparent() or "") for _ in range(2)]
        with pytest.raises(RuntimeError), working_on(trace=TRACE.child(b"12345678")):
            raise RuntimeError
        assert present_trace() == TRACE
    assert present_trace() is None
    assert {call.trace_id for call in calls if call} == {TRACE.trace_id}
    assert len({call.span_id for call in calls if call} | {TRACE.span_id}) == 3
