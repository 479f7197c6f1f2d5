"""Compile a transform, or collect all that is wrong with it.

Owns the one way from SQL and schemas to a query that can run, which ValidateQuery reports and ExecuteTransform runs.
Invariant: a transform that passes here is not refused for its SQL later. Source: docs/engine.md#operations.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha3_256

from pyspark.sql import SparkSession

from odfabric.errors import LimitExceeded, OdfError
from odfabric.formats.slices.column_names import name_problems
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import QueryProblem, ValidateRequest, ValidateResult
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.compile.expected_state import expected_states, notes_on
from odfabric_engine_spark.compile.output_schema import output_shape
from odfabric_engine_spark.compile.plan_to_stages import staged_query, without_unread
from odfabric_engine_spark.compile.record_columns import check_records_unread
from odfabric_engine_spark.compile.row_wise_query import row_wise_query
from odfabric_engine_spark.compile.staged_query import StagedQuery
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.normal_plan import normal_plan
from odfabric_engine_spark.plan.query_classes import LinearQuery
from odfabric_engine_spark.plan.resolution import ResolvedQuery, resolve_steps
from odfabric_engine_spark.rows.input_scan import columns_needed
from odfabric_engine_spark.rows.output_shape import OutputShape
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, Plan, meaning_of, output_of
from odfabric_engine_spark.spark.settings import EngineSettings
from odfabric_engine_spark.sql.constants.failing_constants import failing_constants
from odfabric_engine_spark.sql.corrections.unknown_names import in_another_case, quoted
from odfabric_engine_spark.sql.gate import GATE_CONF, gated_session, steps_of, temporal_tables_of
from odfabric_engine_spark.sql.operators_used import operators_of
from odfabric_engine_spark.sql.output_column_rules import ColumnProblem, refusals
from odfabric_engine_spark.sql.parsed_plan_rules import Mode, ParsedGate
from odfabric_engine_spark.sql.refusal import CASE_BEHIND, Refused, refusal, shown


@dataclass(frozen=True, slots=True)
class JudgedTransform:
    """A transform that can run.

    `plan` is the analysed one. `needed` are the columns of each scan that a row-wise query reads; stages know their own. `meaning`
    distinguishes what it reads of its inputs and makes of it.
    """

    query: LinearQuery | StagedQuery
    shape: OutputShape
    needed: tuple[frozenset[str], ...]
    plan: Plan
    meaning: str


def judged_transform(
    call: EngineCall, transform: TransformSql, tables: Mapping[str, InputTable], vocabulary: DatasetVocabulary
) -> JudgedTransform:
    """The transform as it runs, judged once for all calls.

    Raises Refused, InvalidQuery, LimitExceeded.
    """
    steps, lookups = steps_of(transform), temporal_tables_of(transform)
    inputs = tuple(
        (alias, table.vocabulary, table.arrow.serialize().to_pybytes(), table.spark.json())
        for alias, table in tables.items()
    )
    made_from = (
        "transform",
        steps,
        tuple(sorted(lookups.items())),
        inputs,
        vocabulary,
        tuple(sorted(GATE_CONF.items())),
    )
    judged: JudgedTransform = call.plans.get(
        made_from,
        lambda: judge_transform(
            call.session, steps, tables, vocabulary, settings=call.settings, temporal_tables=lookups
        ),
    )
    return judged


def judge_transform(
    session: SparkSession,
    steps: Sequence[SqlQueryStep],
    tables: Mapping[str, InputTable],
    vocabulary: DatasetVocabulary,
    *,
    settings: EngineSettings,
    temporal_tables: Mapping[str, tuple[str, ...]] | None = None,
) -> JudgedTransform:
    """Raises Refused with all that is wrong with one statement, LimitExceeded."""
    lookups = temporal_tables or {}
    _check_temporal_tables(lookups, [*tables, *(step.alias for step in steps if step.alias)])
    resolved = resolve_steps(session, steps, tables, settings=settings, temporal_tables=lookups)
    try:
        if failing := list(failing_constants(resolved.catalyst, resolved.plan)):
            raise Refused(failing)
        query = _query(resolved, tables, vocabulary, lookups)
        shape = output_shape(query, tables, vocabulary, written=resolved.plan)
    except Refused as refused:
        raise Refused(refused.problems, step=len(steps) - 1 if refused.step is None else refused.step) from None
    needed: tuple[frozenset[str], ...] = ()
    if isinstance(query, LinearQuery):
        needed = tuple(columns_needed(query.catalyst, query.plan, output_of(query.plan)))
    meaning = sha3_256(meaning_of(without_unread(query.catalyst, query.plan)).encode()).hexdigest()
    return JudgedTransform(query, shape, needed, resolved.plan, meaning)


def _query(
    resolved: ResolvedQuery,
    tables: Mapping[str, InputTable],
    vocabulary: DatasetVocabulary,
    temporal_tables: Mapping[str, tuple[str, ...]],
) -> LinearQuery | StagedQuery:
    """Row-wise queries map records, all others run in stages. Raises Refused."""
    query = row_wise_query(resolved, operation_name=vocabulary.operation_type)
    if query is None:
        return staged_query(normal_plan(resolved, tables, temporal_tables))
    check_records_unread(query, tables, operation=vocabulary.operation_type)
    return query


def input_tables(inputs: Sequence[tuple[str, DatasetVocabulary, DataSchema]]) -> dict[str, InputTable]:
    """The inputs by alias.

    Raises InvalidQuery for an alias used twice, IncompatibleSchema for a type without a form.
    """
    check_aliases([alias for alias, _, _ in inputs])
    return {alias: InputTable.of(alias, vocabulary, schema) for alias, vocabulary, schema in inputs}


def check_aliases(aliases: Sequence[str]) -> None:
    """Raises InvalidQuery for an alias used twice."""
    for number, alias in enumerate(aliases):
        if alias in aliases[:number]:
            raise refusal("inputs", f"two inputs have the alias {shown(alias)}", hint="give each an alias of its own")


def _check_temporal_tables(temporal_tables: Iterable[str], relations: Sequence[str]) -> None:
    """Raises InvalidQuery for a temporal table that the query cannot read.

    Rows would not wait for its versions.
    """
    for name in temporal_tables:
        if name not in relations:
            same = in_another_case(name, sorted(relations))
            hint = f"name one of these in temporalTables: {', '.join(sorted(relations))}"
            raise refusal(
                "temporal-tables",
                f"the temporal table {shown(name)} is neither an input nor a step",
                hint=f"name it {quoted(same)}: {CASE_BEHIND}" if len(same) == 1 else hint,
            )


def validate_query(request: ValidateRequest, call: EngineCall) -> ValidateResult:
    """Judges a transform without data. Raises LimitExceeded."""
    call.progress("validate")
    try:
        return accepted_query(request, call)
    except Refused as refused:
        placed = refused.in_steps([step.query for step in steps_of(request.transform)])
        return refused_query([_problem(problem, step) for step, problem in placed])
    except LimitExceeded:
        raise
    except OdfError as error:
        return refused_query([_problem(error, 0)])


def accepted_query(request: ValidateRequest, call: EngineCall) -> ValidateResult:
    """What a transform is.

    Raises Refused with what is wrong with its statements, another OdfError with what is wrong around them.
    """
    steps = steps_of(request.transform)
    known = [(one.alias, one.vocabulary, one.data_schema) for one in request.inputs if one.data_schema is not None]
    if len(known) < len(request.inputs):
        _judge_text(call, steps, [one.alias for one in request.inputs])
        return ValidateResult(problems=(), data_schema=None, operator_class=None, keys=())
    tables = input_tables(known)
    judged = judge_transform(
        call.session,
        steps,
        tables,
        request.vocabulary,
        settings=call.settings,
        temporal_tables=temporal_tables_of(request.transform),
    )
    _check_names(judged, request, steps, bytes_max=call.settings.column_name_bytes_max)
    query = judged.query
    name = "linear" if isinstance(query, LinearQuery) else query.operator_class
    keys = () if isinstance(query, LinearQuery) else query.keys
    return ValidateResult(
        problems=(),
        data_schema=judged.shape.data_schema,
        operator_class=name,
        keys=keys,
        states=expected_states(query),
        notes=notes_on(query),
        operators=operators_of(judged.plan, steps, operator_class=name),
        meaning=judged.meaning,
    )


def _check_names(
    judged: JudgedTransform, request: ValidateRequest, steps: Sequence[SqlQueryStep], *, bytes_max: int
) -> None:
    """Names that the dataset does not have yet.

    A transform that runs already is not asked again. Raises Refused, LimitExceeded.
    """
    known = () if request.data_schema is None else [field.name for field in request.data_schema.fields]
    found = list(name_problems(judged.shape.data_schema, request.vocabulary, bytes_max=bytes_max, known=known))
    if found:
        problems = [
            ColumnProblem(one.name, "column-name", one.message, hint="name it otherwise with AS") for one in found
        ]
        raise Refused(refusals(problems, judged.plan), step=len(steps) - 1)


def _judge_text(call: EngineCall, steps: Sequence[SqlQueryStep], aliases: Sequence[str]) -> None:
    """What can be said of statements over inputs whose columns are not known yet.

    Raises Refused.
    """
    check_aliases(aliases)
    catalyst = Catalyst(gated_session(call.session, mode=Mode.TRANSFORM))
    gate = ParsedGate(catalyst, mode=Mode.TRANSFORM, settings=call.settings)
    known = set(aliases)
    for number, step in enumerate(steps):
        try:
            gate.parse(step.query, relations=known)
        except Refused as refused:
            raise Refused(refused.problems, step=number) from None
        known.add(step.alias or "")


def refused_query(problems: Sequence[QueryProblem]) -> ValidateResult:
    """The answer that a transform is refused."""
    return ValidateResult(problems=tuple(problems), data_schema=None, operator_class=None, keys=())


def _problem(error: OdfError, step: int) -> QueryProblem:
    place = error.place
    return QueryProblem(
        rule=place.rule or error.code,
        message=error.message,
        hint=error.hint,
        step=step,
        line=place.line,
        column=place.column,
    )
