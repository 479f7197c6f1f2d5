"""Judge queries without datasets: lines of JSON in, lines of JSON out.

Owns the form of a line and of its answer. Invariant: every line has one answer, in the order of the lines; a line that cannot be read,
a query that is refused and a failure of the engine at one query are answers, never the end of the run; a line whose engine broke down
is judged again while no other is; memory holds a few lines.
Not here: what is wrong with a query (the engine), files and exit codes (`cli.commands.engine_commands`).
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import BinaryIO

from odfabric.errors import Determinate, InvalidManifest, InvalidRequest, LimitExceeded, OdfError, Place
from odfabric.formats.json_values.canonical_json import JsonValue, check_json_value, decode_json
from odfabric.formats.manifests.manifest_events import data_schema_from_value, noun_to_value, transform_from_value
from odfabric.model.engine import REPEATS_LIMIT, QueryInput, QueryProblem, ValidateRequest, ValidateResult
from odfabric.model.metadata import TransformSql
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.engine import Engine

ENGINE = "spark"
_DEPTH_MAX = 300
"""Deepest nesting of a line, in arrays and objects; a schema takes three for each level of its types."""
_AHEAD = 2
"""Lines that wait for each one under way."""
_MEMBERS = ("id", "queries", "query", "inputs", "engine", "temporalTables", "vocabulary", "previous")
_VOCABULARY = {
    "offsetColumn": "offset",
    "operationTypeColumn": "operation_type",
    "systemTimeColumn": "system_time",
    "eventTimeColumn": "event_time",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How long a line may be, and how many queries are judged at once."""

    line_bytes_max: int
    at_once_max: int


@dataclass(frozen=True, slots=True)
class BatchLine:
    """A line by its number, from 1.

    `data` is None for one that is too long, which was read to its end and forgotten.
    """

    number: int
    data: bytes | None


def lines_of(stream: BinaryIO, *, line_bytes_max: int) -> Iterator[BatchLine]:
    """Lines of a stream, however long it is; blank ones are left out."""
    number = 0
    while data := stream.readline(line_bytes_max + 1):
        number += 1
        whole: bytes | None = data
        if len(data.rstrip(b"\r\n")) > line_bytes_max or (len(data) > line_bytes_max and not data.endswith(b"\n")):
            while data and not data.endswith(b"\n"):
                data = stream.readline(line_bytes_max + 1)
            whole = None
        if whole is None or whole.strip():
            yield BatchLine(number, whole)


def validate_lines(
    lines: Iterable[BatchLine], *, engine: Engine, limits: BatchLimits
) -> Iterator[Mapping[str, object]]:
    """The answer of each line, in order: `{id, ok, schema, operators, errors}`."""
    waiting: deque[tuple[BatchLine, Future[Mapping[str, object]]]] = deque()
    with ThreadPoolExecutor(limits.at_once_max, thread_name_prefix="validate") as threads:

        def first_answer() -> Mapping[str, object]:
            line, answer = waiting.popleft()
            try:
                return answer.result()
            except (Determinate, LimitExceeded):
                # The engine may have broken down under a neighbour: asked alone, it is the query's own fault or none.
                wait([each for _, each in waiting])
            try:
                return _answer(line, engine, limits, unless=_was_away)
            except Determinate:
                # The engine that a neighbour ended may have been starting still.
                return _answer(line, engine, limits)

        try:
            for line in lines:
                waiting.append((line, threads.submit(_answer, line, engine, limits, unless=_may_be_of_others)))
                if len(waiting) >= limits.at_once_max * (1 + _AHEAD):
                    yield first_answer()
            while waiting:
                yield first_answer()
        finally:
            for _, one in waiting:
                one.cancel()


def judgement(result: ValidateResult) -> dict[str, object]:
    """A judgement as JSON."""
    answer: dict[str, object] = {
        "ok": not result.problems,
        "schema": None if result.data_schema is None else noun_to_value(result.data_schema),
        "operators": [
            {
                "class": one.operator_class,
                "operator": one.name,
                "keys": list(one.keys),
                "detail": one.detail,
                "step": one.step,
                "line": one.line,
                "column": one.column,
            }
            for one in result.operators
        ],
        "errors": [problem_value(each) for each in result.problems],
    }
    if result.operator_class is not None:
        states = [
            {"kept": one.kept.value, "keys": list(one.keys), "relations": list(one.relations)} for one in result.states
        ]
        answer |= {
            "class": result.operator_class,
            "keys": list(result.keys),
            "state": states,
            "notes": list(result.notes),
        }
    if result.evolution is not None:
        evolution = result.evolution
        answer["evolution"] = {
            "verdict": evolution.verdict.value,
            "reason": evolution.reason,
            "hint": evolution.hint,
        }
    return answer


def input_schema(value: JsonValue) -> tuple[JsonValue, str | None]:
    """The two forms of a schema: a value of the specification's form, or DDL.

    Raises InvalidRequest.
    """
    match value:
        case None:
            return None, None
        case str():
            return None, value
        case {"ddl": str(ddl), **others} if not others:
            return None, ddl
        case {"fields": list(), **others} if "ddl" not in others:
            return value, None
        case list():
            return {"fields": value}, None
        case _:
            raise InvalidRequest("a schema is a list of fields, or an object with `fields` or `ddl`")


def _answer(
    line: BatchLine, engine: Engine, limits: BatchLimits, *, unless: Callable[[OdfError], bool] = lambda error: False
) -> Mapping[str, object]:
    """The answer of a line.

    Raises errors that `unless` names, which are no answer yet.
    """
    name: JsonValue = None
    try:
        members = _members(line, limits)
        name = _name(members.get("id"))
        _check(members)
        result = engine.validate_query(_request(members))
    except OdfError as error:
        if unless(error):
            raise
        return _failed(name, line, error)
    except RuntimeError as bug:
        # A bug that one query meets must not cost the answers of all others.
        return _failed(name, line, InvalidRequest(f"the engine failed: {bug}", hint="its log says why"))
    return {"id": name, **judgement(result)}


def _may_be_of_others(error: OdfError) -> bool:
    """Whether the engine was away or busy, or broke down again and again."""
    return _was_away(error) or (isinstance(error, LimitExceeded) and error.limit == REPEATS_LIMIT)


def _was_away(error: OdfError) -> bool:
    """Whether the engine was away or busy."""
    return isinstance(error, Determinate)


def _members(line: BatchLine, limits: BatchLimits) -> dict[str, JsonValue]:
    if line.data is None:
        maximum = limits.line_bytes_max
        raise LimitExceeded("the line is too long", limit="validate_line_bytes_max", maximum=maximum)
    try:
        text = line.data.decode("utf-8").strip()
        value, end = decode_json(text, 0)
    except json.JSONDecodeError as error:
        raise InvalidRequest(f"not JSON: {error.msg}", place=Place(column=error.pos + 1)) from None
    except (ValueError, RecursionError) as error:
        raise InvalidRequest(f"not JSON: {error}") from None
    if end != len(text) or not isinstance(value, dict):
        raise InvalidRequest("not one JSON object", hint='{"id": .., "queries": [..], "inputs": [..]}')
    return value


def _name(value: JsonValue) -> JsonValue:
    """The id that comes back, None for one that no answer can hold."""
    try:
        _check({"id": value})
    except InvalidRequest:
        return None
    return value


def _check(members: dict[str, JsonValue]) -> None:
    """Raises InvalidRequest for JSON values that no query or answer can hold."""
    try:
        # Whoever writes the answer may have less of a stack left than this thread, so it is levels that are counted.
        check_json_value(members, depth_max=_DEPTH_MAX)
    except ValueError as error:
        raise InvalidRequest(str(error)) from None
    for field, text in _texts(members, ""):
        half = next((character for character in text if "\ud800" <= character <= "\udfff"), None)
        if half is not None:
            raise InvalidRequest(
                f"\\u{ord(half):x} stands alone, which is no character",
                place=Place(field=field or None),
                hint="write both halves, or the character itself",
            )


def _texts(value: JsonValue, field: str) -> Iterator[tuple[str, str]]:
    """All texts of a value with where they stand.

    Names of members with where their object stands.
    """
    match value:
        case str():
            yield field, value
        case list():
            for number, each in enumerate(value):
                yield from _texts(each, f"{field}[{number}]")
        case dict():
            for name, each in value.items():
                yield field, name
                yield from _texts(each, f"{field}.{name}" if field else name)
        case _:
            pass


def _request(members: Mapping[str, JsonValue]) -> ValidateRequest:
    unknown = [name for name in members if name not in _MEMBERS]
    if unknown:
        raise InvalidRequest(f"unknown member `{unknown[0][:60]}`", hint=f"known are {', '.join(_MEMBERS)}")
    queries = members.get("queries", members.get("query"))
    inputs = members.get("inputs", [])
    if not isinstance(inputs, list):
        raise InvalidRequest("`inputs` is a list")
    previous = members.get("previous")
    vocabulary = _vocabulary(members.get("vocabulary"))
    return ValidateRequest(
        vocabulary=vocabulary,
        transform=_transform(queries, members),
        inputs=tuple(_input(each, number, vocabulary) for number, each in enumerate(inputs)),
        previous=None if previous is None else _transform(previous, members),
    )


def _transform(queries: JsonValue, members: Mapping[str, JsonValue]) -> TransformSql:
    if queries is None:
        raise InvalidRequest(
            "`queries` is missing", hint="a query, or a list of queries of which all but the last have an alias"
        )
    steps: Sequence[JsonValue] = queries if isinstance(queries, list) else [queries]
    listed: list[JsonValue] = [{"query": step} if isinstance(step, str) else step for step in steps]
    value: dict[str, JsonValue] = {"kind": "Sql", "engine": members.get("engine", ENGINE), "queries": listed}
    if members.get("temporalTables") is not None:
        value["temporalTables"] = members["temporalTables"]
    return transform_from_value(value)


def _input(value: JsonValue, number: int, vocabulary: DatasetVocabulary) -> QueryInput:
    alias = value.get("alias") if isinstance(value, dict) else None
    if not isinstance(value, dict) or not isinstance(alias, str) or not set(value) <= {"alias", "schema", "vocabulary"}:
        raise InvalidRequest(f"inputs[{number}] is not an object of `alias` and `schema`")
    schema, ddl = input_schema(value.get("schema"))
    own = value.get("vocabulary")
    try:
        return QueryInput(
            alias=alias,
            vocabulary=vocabulary if own is None else _vocabulary(own),
            data_schema=None if schema is None else data_schema_from_value(schema),
            ddl=ddl,
        )
    except InvalidManifest as error:
        raise InvalidRequest(
            f"the schema of input `{alias}`: {error.message}", place=error.place, hint=error.hint
        ) from None


def _vocabulary(value: JsonValue) -> DatasetVocabulary:
    if value is None:
        return DatasetVocabulary()
    if not isinstance(value, dict) or not all(isinstance(name, str) and name for name in value.values()):
        raise InvalidRequest("`vocabulary` is an object with names of columns")
    unknown = [name for name in value if name not in _VOCABULARY]
    if unknown:
        raise InvalidRequest(f"unknown column `{unknown[0][:60]}`", hint=f"known are {', '.join(_VOCABULARY)}")
    return DatasetVocabulary(**{_VOCABULARY[name]: str(column) for name, column in value.items()})


def _failed(name: JsonValue, line: BatchLine, error: OdfError) -> Mapping[str, object]:
    """The answer of a line that could not be judged.

    Its errors point at the line itself.
    """
    problem = {
        "message": f"line {line.number}: {error.message}",
        "line": line.number,
        "column": error.place.column,
        "rule": error.code,
        "hint": error.hint,
        "step": None,
        "field": error.place.field,
        "suggestion": None,
    }
    return {"id": name, "ok": False, "schema": None, "operators": [], "errors": [problem]}


def problem_value(problem: QueryProblem) -> dict[str, object]:
    """A problem as JSON; `field` replaces line and column where there is no query."""
    return {
        "message": problem.message,
        "line": problem.line,
        "column": problem.column,
        "rule": problem.rule,
        "hint": problem.hint,
        "step": problem.step,
        "field": None if problem.of_input is None else f"inputs[{problem.of_input}].schema.ddl",
        "suggestion": problem.suggestion,
    }
