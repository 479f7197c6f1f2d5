"""A batch of queries: an answer for every line, in order, whatever the line holds."""

from __future__ import annotations

import io
import json
import threading
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.errors import Determinate, LimitExceeded, OdfError
from odfabric.model.engine import QueryProblem, ValidateRequest, ValidateResult
from odfabric.usecases.queries.validate_queries import BatchLimits, lines_of, validate_lines

LIMITS = BatchLimits(line_bytes_max=2_000, at_once_max=3)
FIELDS = [{"name": "v", "type": {"kind": "Int32"}}]


def line(name: object, *, query: object = "select * from a", **more: object) -> bytes:
    inputs = [{"alias": "a", "schema": FIELDS}]
    return json.dumps({"id": name, "queries": query, "inputs": inputs, **more}).encode() + b"\n"


def answers(data: bytes, engine: MemoryEngine, limits: BatchLimits = LIMITS) -> list[dict[str, object]]:
    lines = lines_of(io.BytesIO(data), line_bytes_max=limits.line_bytes_max)
    return [json.loads(json.dumps(answer)) for answer in validate_lines(lines, engine=engine, limits=limits)]


@pytest.fixture
def engine(tmp_path: Path) -> MemoryEngine:
    return MemoryEngine(tmp_path)


def test_answers_come_in_the_order_of_the_lines(engine: MemoryEngine) -> None:
    found = answers(b"".join(line(number) for number in range(50)), engine)
    assert [answer["id"] for answer in found] == list(range(50))
    assert all(answer["ok"] for answer in found)


def test_an_accepted_query_tells_its_schema_in_the_form_of_manifests(engine: MemoryEngine) -> None:
    (answer,) = answers(line("x"), engine)
    assert answer["schema"] == {"fields": FIELDS}
    assert (answer["class"], answer["errors"]) == ("linear", [])


@pytest.mark.parametrize(
    "query",
    [
        "select * from a",
        ["select * from a"],
        [{"query": "select * from a"}],
        [{"alias": "s", "query": "select * from a"}, "select * from a"],
    ],
)
def test_queries_may_be_written_in_every_form(engine: MemoryEngine, query: object) -> None:
    (answer,) = answers(line(1, query=query), engine)
    assert answer["ok"]


BAD = [
    (b"nonsense\n", None, "not JSON"),
    (b'["list"]\n', None, "not one JSON object"),
    (b'{"id": 7} {"id": 8}\n', None, "not one JSON object"),
    (b'{"id": 7, "id": 8}\n', None, "not JSON"),
    (b"\xff\xfe\n", None, "not JSON"),
    (b'{"id": "\\ud800"}\n', None, "\\ud800 stands alone"),
    (b'{"id": 7, "queries": "select \\ud800"}\n', 7, "\\ud800 stands alone"),
    (b"[" * 1500 + b"\n", None, "not JSON"),
    (b'{"id": ' + b"[" * 301 + b"]" * 301 + b"}\n", None, "nested deeper than"),
    (b'{"id": 1e999}\n', None, "a number is too large"),
    (line(7, previous=2**70), 7, "an integer is outside"),
    (line(7, **{"\ud800": 1}), 7, "\\ud800 stands alone"),
    (b'{"id": 7}\n', 7, "`queries` is missing"),
    (line(7, surprise=1), 7, "unknown member `surprise`"),
    (line(7, inputs=[{"alias": "a", "schema": 5}]), 7, "a schema is"),
    (line(7, inputs=[{"alias": "a", "schema": [{"name": "v", "type": {"kind": "Nope"}}]}]), 7, "schema of input `a`"),
    (line(7, inputs=[{"schema": FIELDS}]), 7, "inputs[0]"),
    (line(7, inputs={"a": FIELDS}), 7, "`inputs` is a list"),
    (line(7, vocabulary={"event": "x"}), 7, "unknown column `event`"),
    (line(7, query=[{"sql": "select 1"}]), 7, "sql"),
    (line(7, query="x" * 3000), None, "too long"),
]


@pytest.mark.parametrize(("bad", "name", "said"), BAD)
def test_a_bad_line_is_an_answer_that_names_the_line(engine: MemoryEngine, bad: bytes, name: object, said: str) -> None:
    good, refused, after = answers(line(1) + bad + line(3), engine)
    assert (good["ok"], after["ok"]) == (True, True)
    assert (refused["id"], refused["ok"]) == (name, False)
    (error,) = refused["errors"]  # type: ignore[misc]
    assert error["line"] == 2
    assert error["message"].startswith("line 2: ")
    assert said in error["message"]


def test_half_of_a_character_is_told_with_the_text_that_has_it(engine: MemoryEngine) -> None:
    (answer,) = answers(line(7, query=[{"query": "select 1"}, {"query": "select '\udc00' from a"}]), engine)
    (error,) = answer["errors"]  # type: ignore[misc]
    assert answer["id"] == 7
    assert error["message"] == "line 1: \\udc00 stands alone, which is no character"
    assert error["field"] == "queries[1].query"


class ReadingEngine(MemoryEngine):
    """An engine that finds the DDL of the second input wrong."""

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        problem = QueryProblem(rule="r", message="m", hint=None, step=0, line=1, column=5, of_input=1)
        return ValidateResult(problems=(problem,), data_schema=None, operator_class=None, keys=())


def test_what_is_wrong_with_ddl_is_told_with_its_place_in_the_line(tmp_path: Path) -> None:
    (answer,) = answers(line(7), ReadingEngine(tmp_path))
    (error,) = answer["errors"]  # type: ignore[misc]
    assert (error["line"], error["column"], error["field"]) == (1, 5, "inputs[1].schema.ddl")


def test_blank_lines_are_no_queries_and_the_last_line_needs_no_end(engine: MemoryEngine) -> None:
    found = answers(b"\n  \n" + line(1) + b"\r\n" + line(2).rstrip(), engine)
    assert [answer["id"] for answer in found] == [1, 2]


def test_a_line_of_exactly_the_limit_is_read(engine: MemoryEngine) -> None:
    whole = line("x")
    limits = BatchLimits(line_bytes_max=len(whole.rstrip()), at_once_max=1)
    assert answers(whole, engine, limits)[0]["ok"]
    shorter = BatchLimits(line_bytes_max=len(whole.rstrip()) - 1, at_once_max=1)
    (refused,) = answers(whole, engine, shorter)
    assert "too long" in refused["errors"][0]["message"]  # type: ignore[index]


def test_a_stream_is_read_no_further_than_its_answers_need(engine: MemoryEngine) -> None:
    read = 0

    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
            nonlocal read
            data = line(read)
            buffer[: len(data)] = data
            read += 1
            return len(data)

    limits = BatchLimits(line_bytes_max=2_000, at_once_max=2)
    stream = io.BufferedReader(Endless(), 2_000)
    found = validate_lines(lines_of(stream, line_bytes_max=2_000), engine=engine, limits=limits)
    assert [next(found)["id"] for _ in range(5)] == list(range(5))
    assert read < 5 + 3 * 2 + 10
    found.close()  # type: ignore[attr-defined]


class DyingEngine(MemoryEngine):
    """An engine that dies `deaths` times, by the text of the query."""

    def __init__(self, root: Path, deaths: dict[str, int]) -> None:
        super().__init__(root)
        self.deaths = deaths
        self.lock = threading.Lock()

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        text = (request.transform.queries or ())[-1].query
        with self.lock:
            left = self.deaths.get(text, 0)
            self.deaths[text] = left - 1
        if left > 0:
            raise Determinate("the engine is away (unavailable)")
        return super().validate_query(request)


def test_an_engine_that_died_is_asked_twice_more_and_then_its_failure_is_the_answer(tmp_path: Path) -> None:
    engine = DyingEngine(tmp_path, {"select * from a ": 2, "select * from  a": 9})
    found = answers(line(1, query="select * from a ") + line(2, query="select * from  a") + line(3), engine)
    assert [answer["ok"] for answer in found] == [True, False, True]
    (error,) = found[1]["errors"]  # type: ignore[misc]
    assert error["rule"] == "unavailable"


class CrowdedEngine(MemoryEngine):
    """An engine that breaks down under its load at each query's first call."""

    def __init__(self, root: Path, error: OdfError) -> None:
        super().__init__(root)
        self.error = error
        self.lock = threading.Lock()
        self.asked: set[str] = set()
        self.present = 0
        self.repeated_among_others: list[str] = []

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        text = (request.transform.queries or ())[-1].query
        with self.lock:
            is_first = text not in self.asked
            self.asked.add(text)
            self.present += 1
            if not is_first and self.present > 1:
                self.repeated_among_others.append(text)
        try:
            if is_first:
                raise self.error
            return super().validate_query(request)
        finally:
            with self.lock:
                self.present -= 1


@pytest.mark.parametrize(
    "error",
    [Determinate("the engine is busy"), LimitExceeded("it broke down", limit="engine_repeats_max", maximum=1)],
    ids=["away", "broke down"],
)
def test_no_answer_is_lost_because_neighbours_were_expensive(tmp_path: Path, error: OdfError) -> None:
    engine = CrowdedEngine(tmp_path, error)
    found = answers(b"".join(line(number, query="select * from a" + " " * number) for number in range(40)), engine)
    assert [answer["id"] for answer in found] == list(range(40))
    assert all(answer["ok"] for answer in found), found
    assert engine.repeated_among_others == []


def test_a_limit_of_the_query_itself_is_its_answer_at_once(tmp_path: Path) -> None:
    engine = CrowdedEngine(tmp_path, LimitExceeded("too slow", limit="engine_validate_s_max", maximum=60))
    first, second = answers(line(1) + line(2), engine)
    assert (first["ok"], second["ok"]) in [(False, True), (True, False)], "it was asked once"
