"""Judgements of queries as messages of the engine's protocol.

Owns the answer of ValidateQuery on the wire. Invariant: what is read is what was written, and a message that is not the form of a
judgement is refused (InvalidRequest). Not here: requests, and the answers of all other operations (`engine_wire`).
"""

from __future__ import annotations

from odfabric.errors import InvalidRequest
from odfabric.formats.engine_messages.engine_wire import failure_from_wire, optional_schema, optional_schema_of
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric.model.engine import (
    ColumnLineage,
    EvolutionVerdict,
    KeptBy,
    QueryEvolution,
    QueryOperator,
    QueryProblem,
    QueryState,
    ValidateResult,
)


def validate_result_to_wire(result: ValidateResult) -> pb.ValidateQueryResponse:
    """The judgement."""
    return pb.ValidateQueryResponse(
        problems=[
            pb.QueryProblem(
                rule=problem.rule,
                message=problem.message,
                hint=problem.hint,
                step=problem.step,
                line=problem.line,
                column=problem.column,
                suggestion=problem.suggestion,
                of_input=problem.of_input,
            )
            for problem in result.problems
        ],
        data_schema_json=optional_schema(result.data_schema),
        operator_class=result.operator_class,
        keys=result.keys,
        operators=[
            pb.QueryOperator(
                operator_class=operator.operator_class,
                name=operator.name,
                keys=operator.keys,
                detail=operator.detail,
                step=operator.step,
                line=operator.line,
                column=operator.column,
            )
            for operator in result.operators
        ],
        evolution=None if result.evolution is None else _evolution_to_wire(result.evolution),
        meaning=result.meaning,
        states=[pb.QueryState(kept=one.kept.value, keys=one.keys, relations=one.relations) for one in result.states],
        notes=result.notes,
        column_lineage=[
            pb.ColumnLineage(
                output_column=one.output_column,
                input=one.input,
                column=one.column,
                role=one.role,
                transformation=one.transformation,
            )
            for one in result.column_lineage
        ],
    )


def validate_result_from_wire(message: pb.ValidateQueryResponse) -> ValidateResult:
    """The judgement. Raises the failure if the query could not be judged."""
    if message.HasField("failure"):
        raise failure_from_wire(message.failure)
    return ValidateResult(
        problems=tuple(_problem_from_wire(problem) for problem in message.problems),
        data_schema=optional_schema_of(message),
        operator_class=message.operator_class if message.HasField("operator_class") else None,
        keys=tuple(message.keys),
        operators=tuple(_operator_from_wire(operator) for operator in message.operators),
        evolution=_evolution_from_wire(message.evolution) if message.HasField("evolution") else None,
        meaning=message.meaning if message.HasField("meaning") else None,
        states=tuple(_state_from_wire(state) for state in message.states),
        notes=tuple(message.notes),
        column_lineage=tuple(
            ColumnLineage(
                output_column=one.output_column,
                input=one.input,
                column=one.column,
                role=one.role,
                transformation=one.transformation,
            )
            for one in message.column_lineage
        ),
    )


def _state_from_wire(message: pb.QueryState) -> QueryState:
    try:
        kept = KeptBy(message.kept)
    except ValueError:
        raise InvalidRequest(f"{message.kept!r} is no kind of state") from None
    return QueryState(kept=kept, keys=tuple(message.keys), relations=tuple(message.relations))


def _evolution_to_wire(evolution: QueryEvolution) -> pb.QueryEvolution:
    return pb.QueryEvolution(verdict=evolution.verdict.value, reason=evolution.reason, hint=evolution.hint)


def _evolution_from_wire(message: pb.QueryEvolution) -> QueryEvolution:
    try:
        verdict = EvolutionVerdict(message.verdict)
    except ValueError:
        raise InvalidRequest("a change of a query has one of three verdicts") from None
    hint = message.hint if message.HasField("hint") else None
    return QueryEvolution(verdict=verdict, reason=message.reason, hint=hint)


def _operator_from_wire(operator: pb.QueryOperator) -> QueryOperator:
    return QueryOperator(
        operator_class=operator.operator_class,
        name=operator.name,
        keys=tuple(operator.keys),
        detail=operator.detail,
        step=operator.step,
        line=operator.line if operator.HasField("line") else None,
        column=operator.column if operator.HasField("column") else None,
    )


def _problem_from_wire(problem: pb.QueryProblem) -> QueryProblem:
    return QueryProblem(
        rule=problem.rule,
        message=problem.message,
        hint=problem.hint if problem.HasField("hint") else None,
        step=problem.step,
        line=problem.line if problem.HasField("line") else None,
        column=problem.column if problem.HasField("column") else None,
        suggestion=problem.suggestion if problem.HasField("suggestion") else None,
        of_input=problem.of_input if problem.HasField("of_input") else None,
    )
