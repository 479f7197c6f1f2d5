"""Rows that the inputs had: found by conditions, and netted.

Owns which of the found records are there at a state. A withdrawal takes the latest equal row that is there; one of a row that is not there
cancels the next equal row to come (docs/engine.md#unmatched-retractions). Invariant: equal rows meet the same conditions, so what is there
of the found records is what is there of all of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.errors import LimitExceeded
from odfabric.formats.slices.canonical_rows import one_array, row_bytes
from odfabric.model.engine import TransformRequestInput
from odfabric.model.operation import OperationType
from odfabric.model.provenance import PROVENANCE_ROWS_LIMIT
from odfabric_engine_spark.arrays.array_types import Hashes, Longs, Mask
from odfabric_engine_spark.plan.input_tables import InputTable
from odfabric_engine_spark.provenance.input_history import InputHistory, Places, as_scan
from odfabric_engine_spark.provenance.key_search import Condition, KeySearch
from odfabric_engine_spark.rows.input_scan import weights_of
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Catalyst, Expression

CORRECT_FROM, CORRECT_TO = OperationType.CORRECT_FROM.value, OperationType.CORRECT_TO.value
"""The halves of a correction: the second one is the record after the first."""


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
        self._tables = tables
        self._rows_max = rows_max
        self._inputs = {one.query_alias: InputHistory(one, tables[one.query_alias], call) for one in inputs}
        self._searches = {alias: KeySearch(one, catalyst, call) for alias, one in self._inputs.items()}

    @property
    def rows_read(self) -> int:
        """How many records were read, of all inputs."""
        return sum(one.rows_read for one in self._inputs.values())

    def matching(self, alias: str, conditions: Sequence[Condition]) -> Places:
        """Which records of an input meet all conditions.

        Raises LimitExceeded, InvalidData.
        """
        return self._searches[alias].matching(conditions)

    def keys(self, alias: str, expressions: Sequence[Expression], chosen: Places) -> Hashes:
        """Hashes of values of expressions, for the chosen records."""
        return self._searches[alias].hashes(expressions, chosen)

    def keys_of_rows(self, alias: str, expressions: Sequence[Expression], rows: pa.Table) -> Hashes:
        """The same for rows that were read, with all columns."""
        return self._searches[alias].hashes_of(expressions, rows)

    def known(self, alias: str, chosen: Places) -> KnownRows:
        """The chosen records with all columns. Raises LimitExceeded, InvalidData."""
        if len(chosen) > self._rows_max:
            raise LimitExceeded(
                f"explaining the record needs {len(chosen)} rows of the input {alias}: it shows no key by which fewer would do",
                limit=PROVENANCE_ROWS_LIMIT,
                maximum=self._rows_max,
            )
        table = self._tables[alias]
        names = table.vocabulary
        system = {names.offset, names.operation_type, names.system_time}
        rows = self._inputs[alias].read(frozenset(table.no_rows.column_names), chosen)
        return KnownRows(
            offsets=np.asarray(chosen, np.int64),
            operations=one_array(rows.column(names.operation_type)).to_numpy(zero_copy_only=False).astype(np.int64),
            rows=rows,
            data=tuple(name for name in rows.column_names if name not in system),
        )
