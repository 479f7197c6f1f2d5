"""Which input rows can matter for records: conditions on each use of an input.

Owns the way from what the records show to the rows that are read. A column of the result that comes from expressions over uses of inputs
chooses rows of these. Where it reaches only some uses of those that share keys, the keys of their rows choose the rows of the others. Where
a record shows nothing of its key, the keys of the new records do, in a query of one stage. Invariant: the query over the rows that meet the
conditions gives every row that agrees with a record in the columns that were traced, and what it is made of. Keys are taken only from uses
that surely contribute. Source: docs/engine.md#keys-and-stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.arrow_cast import cast_array
from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes
from odfabric_engine_spark.plan.arrow_types import arrow_type
from odfabric_engine_spark.plan.group_keys import can_be_key
from odfabric_engine_spark.plan.partitioning.partition_keys import Component, StageScan, Subplan, Value
from odfabric_engine_spark.provenance.explained_query import ExplainedQuery
from odfabric_engine_spark.provenance.input_history import Places
from odfabric_engine_spark.provenance.key_search import Condition
from odfabric_engine_spark.provenance.keyed_stages import KeyedStages
from odfabric_engine_spark.provenance.past_rows import PastRows
from odfabric_engine_spark.spark.catalyst.plan_nodes import Expression, expr_id
from odfabric_engine_spark.state.key_hash import key_hashes

_Found = dict[StageScan, list[Condition]]


@dataclass(frozen=True, slots=True)
class Bound:
    """By position of the use of an input: conditions on its rows, none for all.

    `touched`: some are keys of new records. `whole`: some use has none.
    """

    conditions: Mapping[int, tuple[Condition, ...]]
    touched: bool
    whole: bool


def bound_of(query: ExplainedQuery, records: pa.Table, past: PastRows, new: Mapping[str, Places]) -> Bound:
    """The conditions for records, which are rows of the output.

    `new` are the records that the block consumed, by input.
    """
    stages = query.stages
    if stages is None:
        return Bound({}, touched=False, whole=True)
    search = _Search(stages, past, new if len(stages.values) == 1 and not query.timed else {})
    shown: list[tuple[Expression, Hashes]] = []
    for column in query.columns:
        name = str(column.name())
        if name in records.column_names and can_be_key(column):
            values = cast_array(one_array(records.column(name)), arrow_type(column))
            shown.append((column, np.unique(key_hashes([values], len(values)))))
    search.stage(len(stages.values) - 1, shown)
    conditions = {at: tuple(search.found.get(scan, ())) for at, scan in enumerate(stages.inputs)}
    return Bound(conditions, touched=search.touched, whole=not all(conditions.values()))


class _Search:
    def __init__(self, stages: KeyedStages, past: PastRows, new: Mapping[str, Places]) -> None:
        self._stages = stages
        self._past = past
        self._new = new
        self.found: _Found = {}
        self.touched = False

    def stage(self, number: int, wanted: Sequence[tuple[Expression, Hashes]]) -> None:
        """Conditions on the scans of a stage, and of stages below, for rows of its result."""
        value = self._stages.values[number]
        reached = [part for expression, hashes in wanted if (part := self._push(value, expression, hashes))]
        for subplan in value.subplans:
            if subplan.components:
                self._complete(subplan, reached)
        for scan in [scan for subplan in value.subplans for scan in (*subplan.scans, *subplan.wholes)]:
            if scan.kind == "stage":
                below = [(each.expressions[0], each.hashes) for each in self.found.get(scan, ())]
                self.stage(int(scan.source), below)

    def _push(self, value: Value, expression: Expression, hashes: Hashes) -> Component | None:
        """Values over a result as values over rows of the scans behind it."""
        if self._stages.is_blocked(expression):
            return None
        part = self._stages.tracer.column(expression, value)
        for scan, over in (part or {}).items():
            self.found.setdefault(scan, []).append(Condition((over,), hashes))
        return part

    def _complete(self, subplan: Subplan, reached: Sequence[Component]) -> None:
        """Gives scans that no value reaches the keys of others, or of new records."""
        parts = ([scan for scan in subplan.scans if scan in each] for each in reached)
        known = [part for part in parts if part]
        source = next((part for part in known if _are_inputs(part) and len(part) < len(subplan.scans)), None)
        if any(len(part) == len(subplan.scans) for part in known) and source is None:
            return
        if source is not None:
            rows = {scan: self._past.matching(str(scan.source), self.found[scan]) for scan in source}
        elif not known and self._new and _are_inputs(subplan.scans) and not subplan.always:
            source, self.touched = [], True
            rows = {scan: self._new[str(scan.source)] for scan in subplan.scans}
        else:
            return
        for scan in subplan.scans:
            if scan not in source:
                self.found.setdefault(scan, []).extend(self._keyed(subplan, scan, rows))

    def _keyed(self, subplan: Subplan, scan: StageScan, rows: Mapping[StageScan, Places]) -> list[Condition]:
        """The keys of rows as conditions on a scan.

        Of an input all components are one condition, of a stage each is its own.
        """
        count = len(subplan.components or ())
        together = [range(count)] if scan.kind == "input" else [range(at, at + 1) for at in range(count)]
        found = []
        for places in together:
            keys = [
                self._past.keys(str(each.source), _components(subplan, each, places), chosen)
                for each, chosen in rows.items()
            ]
            found.append(Condition(_components(subplan, scan, places), np.unique(np.concatenate(keys))))
        return found


def _are_inputs(scans: Sequence[StageScan]) -> bool:
    return all(scan.kind == "input" for scan in scans)


def _components(subplan: Subplan, scan: StageScan, places: range) -> tuple[Expression, ...]:
    components = subplan.components or ()
    return tuple(components[at][scan] for at in places)


def named_columns(query: ExplainedQuery) -> dict[str, int]:
    """Ids of the columns of the result, by name."""
    return {str(column.name()): expr_id(column) for column in query.columns}
