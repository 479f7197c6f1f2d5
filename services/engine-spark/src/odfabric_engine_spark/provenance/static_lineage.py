"""Static lineage: the input columns behind each output column, without rows.

Owns the answer of ValidateQuery about columns. The plan is walked as for records, over inputs without rows and without a job of Spark, and
each output column is followed down to the inputs. Roles and operations get weaker on the way: a sum of what was copied is an aggregation,
and what a comparison looked at stays compared. Source: docs/engine.md#provenance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import OdfError
from odfabric.model.engine import ColumnLineage, QueryInput, ValidateRequest, ValidateResult
from odfabric.model.metadata import TransformSql
from odfabric.model.provenance import CellRole
from odfabric_engine_spark.compile.compile_query import input_tables
from odfabric_engine_spark.execute.validate_query import described_input, judge_query
from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.partitioning.partition_keys import stage_schema
from odfabric_engine_spark.provenance.circuit.builder import Builder, LeafRows
from odfabric_engine_spark.provenance.circuit.lineage import OPERATORS
from odfabric_engine_spark.provenance.circuit.terms import Circuit, Leaf, Origin, Segment
from odfabric_engine_spark.provenance.explained_query import ExplainedQuery, plan_of
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Expression, Plan, expr_id
from odfabric_engine_spark.spark.frames.local_rows import loose
from odfabric_engine_spark.sql.refusal import Refused

_IDENTITY = "IDENTITY"
_STRENGTH = ("IDENTITY", "TRANSFORMATION", "AGGREGATION", "WINDOW", "SORT", "CONDITIONAL", "JOIN", "GROUP_BY", "FILTER")
"""Operations of OpenLineage, from what says most of a value to what says least."""

_Path = tuple[int, int, CellRole, str]
"""A source, a column of it, its role, and the operation that counts."""


def judge_with_lineage(request: ValidateRequest, call: EngineCall) -> ValidateResult:
    """Judges a transform, and says what its columns are made of. Raises LimitExceeded."""
    result = judge_query(request, call)
    if result.problems or result.data_schema is None:
        return result
    inputs = tuple(described_input(one, call) for one in request.inputs)
    try:
        found = column_lineage(request.transform, inputs, call)
    except (OdfError, Refused, PySparkException, Py4JError, pa.ArrowException):
        return result  # the query runs all the same
    return replace(result, column_lineage=found)


def column_lineage(
    transform: TransformSql, inputs: Sequence[QueryInput], call: EngineCall
) -> tuple[ColumnLineage, ...]:
    """The columns behind each output column, the strongest role of each, sorted.

    Raises Refused, IncompatibleSchema.
    """
    schemas = [(one.alias, one.vocabulary, one.data_schema) for one in inputs if one.data_schema is not None]
    query = plan_of(transform, input_tables(schemas), call, keyed=False)
    circuit, _ = _Planned(query.catalyst, call, _no_rows, None, OPERATORS).circuit(query.plan)
    return tuple(sorted(_lineage(circuit, query), key=lambda one: (one.output_column, one.input, one.column)))


class _Planned(Builder):
    """A walk that runs nothing: every relation is empty."""

    def run(self, plan: Plan, results: Sequence[Expression]) -> pa.Table:
        fields = [pa.field(f"c{at}", loose(arrow_type(each))) for at, each in enumerate(results)]
        return pa.schema(fields).empty_table()


def _no_rows(position: int, alias: str, columns: Sequence[Attribute]) -> LeafRows:
    return LeafRows(stage_schema(tuple(columns)).empty_table(), np.zeros(0, np.int64))


def _lineage(circuit: Circuit, query: ExplainedQuery) -> list[ColumnLineage]:
    inspected = _at_inputs(circuit, [_begun(each, CellRole.INSPECTED) for each in _controls(circuit)])
    found: list[ColumnLineage] = []
    for column in query.columns:
        name = str(column.name())
        begun = [_begun(each, each.role) for each in circuit.result.origins.get(expr_id(column), ())]
        cells = {**inspected, **_at_inputs(circuit, begun)}
        found += [
            ColumnLineage(
                output_column=name, input=alias, column=of_input, role=role.name.lower(), transformation=by or _IDENTITY
            )
            for (alias, of_input), (role, by) in cells.items()
        ]
    return found


def _controls(circuit: Circuit) -> list[Origin]:
    return [each for source in circuit.sources if isinstance(source, Segment) for each in source.control]


def _begun(origin: Origin, role: CellRole) -> _Path:
    return origin.source, origin.column, role, origin.by


def _at_inputs(circuit: Circuit, begun: Sequence[_Path]) -> dict[tuple[str, str], tuple[CellRole, str]]:
    """Columns of inputs below, with the strongest role and operation of each."""
    found: dict[tuple[str, str], tuple[CellRole, str]] = {}
    seen: set[_Path] = set()
    waiting = list(begun)
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        number, column, role, by = path
        source = circuit.sources[number]
        if isinstance(source, Leaf):
            known = found.get((source.alias, source.names[column]), (role, by))
            found[source.alias, source.names[column]] = min(known, (role, by), key=_weakness)
            continue
        for origin in source.origins.get(column, ()):
            weaker = max(by, origin.by, key=_rank)
            # What decides whether rows are there keeps the operation that decided.
            waiting.append(
                (origin.source, origin.column, max(role, origin.role), by if role is CellRole.INSPECTED else weaker)
            )
    return found


def _rank(by: str) -> int:
    return _STRENGTH.index(by or _IDENTITY)


def _weakness(found: tuple[CellRole, str]) -> tuple[int, int]:
    return int(found[0]), _rank(found[1])
