"""Rows that the inputs had: read from slices by conditions, and netted.

Owns finding records of an input by values of expressions, and which of them are there at a state. A withdrawal takes the latest equal row
that is there; one of a row that is not there cancels the next equal row to come (docs/engine.md#unmatched-retractions). Invariant: equal
rows meet the same conditions, so what is there of the found records is what is there of all of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.errors import InvalidData, LimitExceeded, Place
from odfabric.formats.slices.canonical_rows import one_array, row_bytes
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.model.engine import SliceFile, TransformRequestInput
from odfabric.model.operation import OperationType
from odfabric.model.provenance import PROVENANCE_ROWS_LIMIT
from odfabric_engine_spark.arrays.array_types import Hashes, Longs, Mask
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.plan.partitioning.partition_keys import stage_schema
from odfabric_engine_spark.rows.input_rows import batch_as_spark
from odfabric_engine_spark.rows.input_scan import weights_of
from odfabric_engine_spark.rows.row_expressions import RowExpressions
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Catalyst, Expression, expr_id, references
from odfabric_engine_spark.spark.frames.result_rows import collected
from odfabric_engine_spark.state.key_hash import key_hashes

FEW = 8
"""Below one record in so many, values are computed for these records alone."""
CORRECT_FROM, CORRECT_TO = OperationType.CORRECT_FROM.value, OperationType.CORRECT_TO.value
"""The halves of a correction: the second one is the record after the first."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Hashes of values, one of which the expressions over a row have together."""

    expressions: tuple[Expression, ...]
    hashes: Hashes


@dataclass(frozen=True)
class KnownRows:
    """Records of one input, ascending by offset; `rows` has all columns of the input."""

    offsets: Longs
    operations: Longs
    rows: pa.Table
    data: tuple[str, ...]

    @cached_property
    def weights(self) -> Longs:
        """1 for a record that adds its row, -1 for one that withdraws it."""
        return weights_of(self.operations.astype(np.int32)).astype(np.int64)

    @cached_property
    def classes(self) -> Longs:
        """A number for each record, the same for equal rows."""
        if not self.rows.num_rows or not self.data:
            return np.zeros(self.rows.num_rows, np.int64)
        content = row_bytes([one_array(self.rows.column(name)) for name in self.data])
        found: Longs = one_array(pc.dictionary_encode(content)).indices.to_numpy().astype(np.int64)
        return found

    def there(self, taken: Mask) -> Mask:
        """Which of the taken records are there when these are all that came."""
        at = np.flatnonzero(taken)
        order = at[np.argsort(self.classes[at], kind="stable")]
        found = np.zeros(len(taken), dtype=bool)
        if len(order):
            found[order] = _survivors(self.classes[order], self.weights[order])
        return found

    def owed(self, taken: Mask) -> bool:
        """Whether the taken records withdraw more of some row than came."""
        sums = np.bincount(self.classes[taken], weights=self.weights[taken]) if taken.any() else np.zeros(1)
        return bool((sums < 0).any())

    def of_columns(self, columns: Sequence[Attribute], chosen: Mask | Longs) -> pa.Table:
        """Some records in columns of a scan, by position."""
        picked = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        return as_scan(self.rows.take(pa.array(picked)), columns)


def as_scan(rows: pa.Table, columns: Sequence[Attribute]) -> pa.Table:
    """Rows by names of columns as rows of a scan, by position."""
    schema = stage_schema(tuple(columns))
    arrays = [rows.column(str(column.name())).cast(field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _survivors(classes: Longs, weights: Longs) -> Mask:
    """Of records sorted by class and offset: those that are not withdrawn later.

    A row that came as the n-th of its class stays if there are never fewer than n afterwards.
    """
    starts = np.flatnonzero(np.r_[True, classes[1:] != classes[:-1]])
    totals = np.cumsum(weights)
    before = np.repeat(totals[starts] - weights[starts], np.diff(np.r_[starts, len(classes)]))
    levels = totals - before
    group = np.cumsum(np.r_[False, classes[1:] != classes[:-1]])
    apart = levels + group * (2 * len(levels) + 1)
    least_after = np.minimum.accumulate(apart[::-1])[::-1]
    found: Mask = (weights > 0) & (levels >= 1) & (least_after >= apart)
    return found


class PastRows:
    """Records of the inputs of a transaction, up to the end of what it consumed."""

    def __init__(
        self,
        inputs: Sequence[TransformRequestInput],
        tables: Mapping[str, InputTable],
        catalyst: Catalyst,
        call: EngineCall,
        *,
        rows_max: int,
    ) -> None:
        self._inputs = {one.query_alias: one for one in inputs}
        self._tables = tables
        self._catalyst = catalyst
        self._call = call
        self._rows_max = rows_max
        self._columns: dict[tuple[str, frozenset[str]], pa.Table] = {}
        self.rows_read = 0

    def matching(self, alias: str, conditions: Sequence[Condition]) -> Mask:
        """Which records of an input meet all conditions, by offset.

        Once few are left, further conditions look at these alone.
        """
        found = np.ones(self._inputs[alias].offsets.end, dtype=bool)
        for condition in conditions:
            if np.count_nonzero(found) * FEW < len(found):
                found[found] = np.isin(self.keys(alias, condition.expressions, found), condition.hashes)
            else:
                found &= np.isin(self.keys(alias, condition.expressions), condition.hashes)
        return found

    def keys(self, alias: str, expressions: Sequence[Expression], chosen: Mask | None = None) -> Hashes:
        """Hashes of values of expressions, for all records or for the chosen ones."""
        by_id = {expr_id(column): column for each in expressions for column in references(each)}
        columns = list(by_id.values())
        if not columns:
            count = self._inputs[alias].offsets.end if chosen is None else int(chosen.sum())
            return np.repeat(self._constant(expressions), count)
        names = frozenset(str(column.name()) for column in columns)
        if chosen is None or np.count_nonzero(chosen) * FEW >= len(chosen) or (alias, names) in self._columns:
            rows = self._read_columns(alias, names)
            rows = rows if chosen is None else rows.filter(pa.array(chosen))
        else:
            rows = self._read(alias, names, chosen)
            self.rows_read += rows.num_rows
        values = RowExpressions.of(self._catalyst, columns, expressions).evaluate(as_scan(rows, columns))
        return key_hashes([one_array(each) for each in values], rows.num_rows)

    def _constant(self, expressions: Sequence[Expression]) -> Hashes:
        """The hash of values that no row decides, such as the tag of a branch of a union."""
        catalyst = self._catalyst
        named = [catalyst.named(each, f"c{at}") for at, each in enumerate(expressions)]
        plan = catalyst.logical.Project(catalyst.seq(named), catalyst.logical.OneRowRelation())
        values = collected(catalyst.data_frame(plan))
        return key_hashes([one_array(each) for each in values.columns], 1)

    def known(self, alias: str, chosen: Mask) -> KnownRows:
        """The chosen records with all columns. Raises LimitExceeded, InvalidData."""
        count = int(chosen.sum())
        if count > self._rows_max:
            raise LimitExceeded(
                f"explaining the record needs {count} rows of the input {alias}: it shows no key by which fewer would do",
                limit=PROVENANCE_ROWS_LIMIT,
                maximum=self._rows_max,
            )
        table = self._tables[alias]
        names = table.vocabulary
        system = {names.offset, names.operation_type, names.system_time}
        rows = self._read(alias, frozenset(table.no_rows.column_names), chosen)
        return KnownRows(
            offsets=np.flatnonzero(chosen),
            operations=_operations(rows, names.operation_type),
            rows=rows,
            data=tuple(name for name in rows.column_names if name not in system),
        )

    def whole_corrections(self, alias: str, offsets: Longs) -> Longs:
        """Offsets of records, with the other half of each that is half of a correction."""
        near = np.zeros(self._inputs[alias].offsets.end + 1, dtype=bool)
        for at in (offsets, offsets + 1, offsets[offsets > 0] - 1):
            near[at] = True
        places = np.flatnonzero(near[:-1])
        column = self._tables[alias].vocabulary.operation_type
        begun = places[_operations(self._read(alias, frozenset({column}), near[:-1]), column) == CORRECT_FROM]
        halves = np.concatenate([begun[np.isin(begun + 1, offsets)], begun[np.isin(begun, offsets)] + 1])
        return np.union1d(offsets, halves)

    def _read_columns(self, alias: str, names: frozenset[str]) -> pa.Table:
        """Columns of all records of an input, kept for the call. Raises LimitExceeded."""
        known = self._columns.get((alias, names))
        if known is None:
            count, maximum = self._inputs[alias].offsets.end, self._call.settings.provenance_scanned_rows_max
            if count > maximum:
                raise LimitExceeded(
                    f"explaining the record looks for its keys in the {count} records of the input {alias}",
                    limit="provenance_scanned_rows_max",
                    maximum=maximum,
                )
            known = self._read(alias, names, np.ones(count, dtype=bool))
            self._columns[alias, names] = known
            self.rows_read += count
        return known

    def _read(self, alias: str, names: frozenset[str], chosen: Mask) -> pa.Table:
        one, schema = self._inputs[alias], self._tables[alias].no_rows.schema
        wanted = pa.schema([field for field in schema if field.name in names])
        batches = [batch for piece in one.slices for batch in self._slice(one, piece, wanted, chosen)]
        rows = pa.Table.from_batches(batches, schema=wanted)
        if rows.num_rows != int(chosen.sum()):
            message = f"input {alias} has {rows.num_rows} of {int(chosen.sum())} records that its slices should hold"
            raise InvalidData(message, place=Place(rule="file-offsets"))
        return rows

    def _slice(
        self, one: TransformRequestInput, piece: SliceFile, schema: pa.Schema, chosen: Mask
    ) -> Iterator[pa.RecordBatch]:
        begin = piece.offsets.begin
        own = chosen[begin : min(piece.offsets.end, one.offsets.end)]
        hits = np.flatnonzero(own)
        if not len(hits):
            return
        names = one.vocabulary
        columns = sorted({*schema.names, names.offset})
        near = range(int(hits[0]), int(hits[-1]) + 1)
        with open_slice(self._call.exchange.input(piece.path), names) as reader:
            for batch in reader.batches(columns, near=near, bytes_max=self._call.settings.batch_bytes):
                self._call.check()
                places = batch.column(names.offset).to_numpy() - begin
                within = (places >= 0) & (places < len(own))
                taken = within.copy()
                taken[within] = own[places[within]]
                if taken.any():
                    yield batch_as_spark(batch if taken.all() else batch.filter(pa.array(taken)), schema, piece.path)


def _operations(rows: pa.Table, column: str) -> Longs:
    found: Longs = one_array(rows.column(column)).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
