"""Which records of a pool can matter for one record of the output.

The rows of a page of records are found together; a search for the witnesses or the trigger of one of them needs its own rows only. Owns the
conditions by which they are chosen: a column of the output that comes from expressions over uses of inputs has the record's value in all rows
of these uses that can matter. Invariant: over any rows that include the own ones the query gives the record as often as over all rows of
the pool. Not here: finding the pool (`conditions`), which needs more conditions than these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Mask
from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.group_keys import can_be_key
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.provenance.explained_query import ExplainedQuery
from odfabric_engine_spark.provenance.keyed_stages import KeyedStages
from odfabric_engine_spark.provenance.states import Pool
from odfabric_engine_spark.rows.row_expressions import RowExpressions
from odfabric_engine_spark.spark.catalyst.plan_nodes import Expression, output_of, references
from odfabric_engine_spark.state.key_hash import key_hashes


@dataclass(frozen=True, slots=True)
class _Agreement:
    """Hashes of a column's values, by record and by row of a use of an input."""

    use: int
    of_records: Hashes
    of_rows: Hashes


@dataclass(frozen=True, slots=True)
class OwnRecords:
    """The records of a pool that can matter, by position of the record of the output."""

    _pool: Pool
    _agreements: tuple[_Agreement, ...]

    @classmethod
    def of(cls, query: ExplainedQuery, pool: Pool, records: pa.Table) -> OwnRecords:
        """Of rows of the output.

        Where no keys are known, and of one record, all records are its own.
        """
        if query.stages is None or records.num_rows == 1:
            return cls(pool, ())
        return cls(pool, tuple(_agreements(query, query.stages, pool, records)))

    def mask(self, record: int) -> Mask:
        """Those of a record.

        A record of the pool is one of them if it matters for some use.
        """
        own = np.zeros(self._pool.count, dtype=bool)
        for use, (alias, matters) in self._pool.uses.items():
            chosen = matters.copy()
            for each in self._agreements:
                if each.use == use:
                    chosen &= each.of_rows == each.of_records[record]
            begin = self._pool.begin(alias)
            own[begin : begin + len(chosen)] |= chosen
        return own


def _agreements(query: ExplainedQuery, stages: KeyedStages, pool: Pool, records: pa.Table) -> Iterator[_Agreement]:
    wanted: dict[int, list[tuple[Expression, Hashes]]] = {}
    for column in query.columns:
        name = str(column.name())
        if name in records.column_names and can_be_key(column):
            values = cast_array(one_array(records.column(name)), arrow_type(column))
            hashes = key_hashes([values], len(values))
            for use, over in _over_uses(stages, len(stages.values) - 1, column):
                wanted.setdefault(use, []).append((over, hashes))
    for use, parts in wanted.items():
        columns, rows = output_of(stages.inputs[use].plan), pool.known[query.uses[use]]
        values = RowExpressions.of(query.catalyst, columns, [over for over, _ in parts]).evaluate(
            rows.of_columns(columns, np.arange(len(rows.offsets)))
        )
        for value, (_, hashes) in zip(values, parts, strict=True):
            yield _Agreement(use, hashes, key_hashes([one_array(value)], len(rows.offsets)))


def _over_uses(stages: KeyedStages, stage: int, expression: Expression) -> Iterator[tuple[int, Expression]]:
    """An expression over the result of a stage as expressions over uses of inputs.

    Nothing where it is none.
    """
    if stages.is_blocked(expression):
        return
    value = stages.values[stage]
    for scan, over in (stages.tracer.column(expression, value) or {}).items():
        if scan.kind == "stage":
            yield from _over_uses(stages, int(scan.source), over)
        elif scan.kind == "input" and references(over):
            yield _position(stages.inputs, scan), over


def _position(inputs: Sequence[StageScan], scan: StageScan) -> int:
    return next(at for at, each in enumerate(inputs) if each is scan)
