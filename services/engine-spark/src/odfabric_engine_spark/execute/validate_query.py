"""The operation ValidateQuery: what a transform is, or all that is wrong with it.

Owns what is said around the judgement: inputs described by DDL, the operators of what passed, a translation of what was written
for another engine, and what replacing a transform means. Invariant: nothing here decides what can run - that is the judgement
which transactions go through as well (`compile.compile_query`) - and a translation is reported only if it passes that judgement.
Source: docs/engine.md#operations.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import LimitExceeded, OdfError
from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.model.engine import QueryEvolution, QueryInput, QueryProblem, ValidateRequest, ValidateResult
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric_engine_spark.compile.compile_query import accepted_query, refused_query, validate_query
from odfabric_engine_spark.execute.evolution.verdict import changed_query, same_query
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.failures import as_odf_error
from odfabric_engine_spark.sql.corrections.collect_errors import Judge, all_problems
from odfabric_engine_spark.sql.gate import ENGINE_NAME, steps_of
from odfabric_engine_spark.sql.input_columns import ddl_schema, with_system_columns
from odfabric_engine_spark.sql.query_equivalence import says_the_same
from odfabric_engine_spark.sql.refusal import Refused
from odfabric_engine_spark.sql.source_positions import words_of

_WINDOW_OF_FLINK = re.compile(r"(?:tumble|hop)(?:_\w+)?")
FOREIGN_ENGINES = frozenset({"flink", "risingwave", "datafusion"})
"""Engines of the ecosystem whose queries can often be written in Spark SQL."""


def judge_query(request: ValidateRequest, call: EngineCall) -> ValidateResult:
    """Judges a transform without data. Raises LimitExceeded."""
    described: list[QueryInput] = []
    for number, one in enumerate(request.inputs):
        try:
            described.append(described_input(one, call))
        except LimitExceeded:
            raise
        except OdfError as error:
            return _refused(error, of_input=None if one.ddl is None else number)
    request = replace(request, inputs=tuple(described))
    if request.transform.engine.lower() in FOREIGN_ENGINES:
        return _foreign(request, call)
    result = _judged(request, call)
    if request.previous is None or result.problems:
        return result
    return replace(result, evolution=_evolution(request, request.previous, result, call))


def _judged(request: ValidateRequest, call: EngineCall) -> ValidateResult:
    """The judgement, with all problems of the statements and their corrected form."""
    call.progress("validate")
    try:
        return accepted_query(request, call)
    except Refused as refused:
        steps = steps_of(request.transform)

        def judge(queries: Sequence[str]) -> None:
            call.check()
            corrected = tuple(replace(step, query=query) for step, query in zip(steps, queries, strict=True))
            accepted_query(replace(request, transform=replace(request.transform, query=None, queries=corrected)), call)

        problems = all_problems([step.query for step in steps], refused, judge)
        return _problems(*_with_windows_of_flink(problems, [step.query for step in steps], judge))
    except LimitExceeded:
        raise
    except (OdfError, RecursionError) as error:
        known = as_odf_error(error)
        assert known is not None
        return _refused(known)


def _with_windows_of_flink(
    problems: Sequence[QueryProblem], queries: Sequence[str], judge: Judge
) -> Sequence[QueryProblem]:
    """Errors of statements with Flink windows, translated to Spark where accepted."""
    ours = [not _has_window_of_flink(query) for query in queries]
    if all(ours) or any(each.suggestion for each in problems):
        return problems
    from odfabric_engine_spark.sql.dialects import Translation, Untranslatable, translate

    try:
        found = [
            Translation(query, ()) if plain else translate(query, "flink")
            for query, plain in zip(queries, ours, strict=True)
        ]
        judge([one.query for one in found])
    except (Untranslatable, Refused, OdfError, PySparkException, Py4JError):
        return problems
    told = list(problems)
    for step, one in enumerate(found):
        first = next((number for number, each in enumerate(told) if each.step == step), None)
        if first is not None and not ours[step]:
            noted = f"{told[first].hint} (note that {'; '.join(one.notes)})" if one.notes else told[first].hint
            told[first] = replace(told[first], hint=noted, suggestion=one.query)
    return told


def _has_window_of_flink(query: str) -> bool:
    """Whether a statement calls one; not where a text or a comment has its name."""
    words = [word.known_by for word in words_of(query)]
    return any(behind == "(" and _WINDOW_OF_FLINK.fullmatch(word) for word, behind in pairwise(words))


def _evolution(
    request: ValidateRequest, previous: TransformSql, after: ValidateResult, call: EngineCall
) -> QueryEvolution:
    if says_the_same(call.session, previous, request.transform):
        return same_query()
    # What the previous transform gives over the inputs of now is not what it gave: `*` takes new columns up.
    before = request.data_schema or validate_query(replace(request, transform=previous), call).data_schema
    return changed_query(before, after)


def described_input(one: QueryInput, call: EngineCall) -> QueryInput:
    """An input with the columns of its DDL and the system columns.

    Raises InvalidQuery.
    """
    schema = one.data_schema
    if one.ddl is not None:
        schema = ddl_schema(call.session, one.ddl, one.alias, settings=call.settings)
    return one if schema is None else replace(one, data_schema=with_system_columns(schema, one.vocabulary), ddl=None)


def _foreign(request: ValidateRequest, call: EngineCall) -> ValidateResult:
    """A transform of another engine is refused.

    What it would be in Spark SQL is reported if that is accepted.
    """
    # Loading the grammars takes longer than judging a query, and few engines ever need them.
    from odfabric_engine_spark.sql.dialects import Translation, Untranslatable, translate

    transform, engine = request.transform, request.transform.engine.lower()
    steps = transform.queries or (() if transform.query is None else (SqlQueryStep(query=transform.query),))
    refused = f"the query is written for {engine}, this engine runs Spark SQL"
    plain = _plain_columns(request.inputs) if len(steps) == 1 else frozenset()
    found: list[Translation] = []
    for number, step in enumerate(steps):
        try:
            found.append(translate(step.query, engine, plain=plain))
        except Untranslatable as why:
            hint = f"write it in Spark SQL, with `engine: {ENGINE_NAME}`: {why.reason}"
            return _problems(_problem(refused, hint, number, line=why.line, column=why.column))
    queries = tuple(SqlQueryStep(alias=step.alias, query=one.query) for step, one in zip(steps, found, strict=True))
    own = TransformSql(engine=ENGINE_NAME, queries=queries, temporal_tables=transform.temporal_tables)
    judged = validate_query(replace(request, transform=own), call)
    if judged.problems:
        first = judged.problems[0]
        hint = f"translated into Spark SQL it is refused as well: {first.message}" + (
            f"; {first.hint}" if first.hint else ""
        )
        return _problems(_problem(refused, hint, first.step))
    return _problems(
        *(
            _problem(refused, _offer(one.query, one.notes), number, suggestion=one.query)
            for number, one in enumerate(found)
        )
    )


def _plain_columns(inputs: Sequence[QueryInput]) -> frozenset[str]:
    """Columns that are texts or integers in all inputs that have them.

    None if the columns of an input are not known.
    """
    if any(one.data_schema is None for one in inputs):
        return frozenset()
    schemas = [data_schema_to_arrow(one.data_schema) for one in inputs if one.data_schema is not None]
    columns = [field for schema in schemas for field in schema]
    others = {field.name for field in columns if not (pa.types.is_integer(field.type) or _is_text(field.type))}
    return frozenset(field.name for field in columns) - others - set(_members(columns))


def _members(fields: Iterable[pa.Field]) -> Iterator[str]:
    """Names within structs: a name with a dot may be one of them."""
    for field in fields:
        if pa.types.is_struct(field.type):
            members = [field.type.field(number) for number in range(field.type.num_fields)]
            yield from (member.name for member in members)
            yield from _members(members)


def _is_text(data_type: pa.DataType) -> bool:
    return bool(pa.types.is_string(data_type) or pa.types.is_large_string(data_type))


def _offer(query: str, notes: Sequence[str]) -> str:
    noted = f" (note that {'; '.join(notes)})" if notes else ""
    return f"with `engine: {ENGINE_NAME}` this is accepted: {' '.join(query.split())}{noted}"


def _problem(
    message: str,
    hint: str,
    step: int,
    *,
    line: int | None = None,
    column: int | None = None,
    suggestion: str | None = None,
) -> QueryProblem:
    return QueryProblem(
        rule="engine", message=message, hint=hint, step=step, line=line, column=column, suggestion=suggestion
    )


def _problems(*problems: QueryProblem) -> ValidateResult:
    return refused_query(problems)


def _refused(error: OdfError, *, of_input: int | None = None) -> ValidateResult:
    place = error.place
    problem = QueryProblem(
        rule=place.rule or error.code,
        message=error.message,
        hint=error.hint,
        step=0,
        line=place.line,
        column=place.column,
        of_input=of_input,
    )
    return _problems(problem)
