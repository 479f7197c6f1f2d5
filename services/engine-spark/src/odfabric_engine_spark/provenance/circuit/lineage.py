"""The circuit of a query over rows: which operator is traced by what.

Invariant: every node of a normal plan has an entry.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from odfabric_engine_spark.provenance.circuit import groups, partners, row_operators, windows
from odfabric_engine_spark.provenance.circuit.builder import Builder, LeafRows, Operator
from odfabric_engine_spark.provenance.circuit.terms import Circuit
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Catalyst, Plan

OPERATORS: Mapping[str, Operator] = {
    "Project": row_operators.project,
    "Filter": row_operators.keep,
    "Generate": row_operators.generate,
    "Expand": row_operators.expand,
    "Union": row_operators.union,
    "Join": partners.join,
    "Aggregate": groups.aggregate,
    "Window": windows.window,
}

RowsOf = Callable[[int, str, Sequence[Attribute]], LeafRows]


@dataclass(frozen=True, slots=True)
class Lineage:
    """A circuit, the rows of its result, and how many jobs made it."""

    circuit: Circuit
    rows: pa.Table
    jobs: int


def lineage_of(catalyst: Catalyst, plan: Plan, rows_of: RowsOf, watermark_us: int | None, call: EngineCall) -> Lineage:
    """The query over rows, and what each row of its result is made of."""
    builder = Builder(catalyst, call, rows_of, watermark_us, OPERATORS)
    circuit, rows = builder.circuit(plan)
    return Lineage(circuit, rows, builder.jobs)
