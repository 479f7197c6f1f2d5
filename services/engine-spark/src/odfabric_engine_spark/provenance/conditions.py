"""Which input rows can matter for records: conditions on each use of an input.

Owns the way from what the records show to the rows that are read. A column of the result that comes from expressions over uses of inputs
chooses rows of these. Where it reaches only some uses of those that share keys, the keys of their rows choose the rows of the others. Where
a record shows nothing of its key, the keys of what the new records changed do (`row_rules`). The way is found once per query, as rules; they
are applied to the values of all records of a page to find their rows in the histories, and to those of each alone to find its own among
them (`own_records`). Invariant: the query over the rows that meet the conditions gives every row that agrees with a record in the columns
that were traced, and what it is made of. Keys are taken only from uses that surely contribute. Source: docs/engine.md#keys-and-stages.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

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
from odfabric_engine_spark.provenance.row_rules import (
    ChangedRows,
    KeyedRows,
    KeysOf,
    Rule,
    Shown,
    Values,
    are_inputs,
    components_of,
    rules_for,
)
from odfabric_engine_spark.spark.catalyst.plan_nodes import Attribute, Expression, expr_id
from odfabric_engine_spark.state.key_hash import key_hashes


@dataclass(frozen=True, slots=True)
class Rules:
    """By position of the use of an input: rules that its rows keep, none for all rows.

    `shown` are the columns of the result that rules are about.

    `touched`: some rules are about keys of new records. `whole`: some use has none.
    """

    by_use: tuple[tuple[Rule, ...], ...]
    shown: tuple[Attribute, ...] = ()
    touched: bool = False

    @property
    def whole(self) -> bool:
        """Whether some use has no rules."""
        return not all(self.by_use)


class Records(Protocol):
    """Records of inputs that can be searched."""

    def matching(self, alias: str, conditions: Sequence[Condition]) -> Places:
        """Those of an input that meet all conditions."""

    def keys(self, alias: str, expressions: Sequence[Expression], chosen: Places) -> Hashes:
        """Hashes of values of expressions, for those chosen by `matching`."""


@dataclass(slots=True)
class Applied:
    """Rules for some values: of records of a page together, or of one."""

    shown: Mapping[str, Hashes]
    records: Records
    new: Mapping[str, Places]
    _known: dict[KeysOf, Hashes] = field(default_factory=dict)

    def conditions(self, rules: Sequence[Rule]) -> tuple[Condition, ...]:
        """Rules as conditions. Raises LimitExceeded, InvalidData."""
        return tuple(Condition(rule.expressions, self._hashes(rule)) for rule in rules)

    def of_record(self, shown: Mapping[str, Hashes], records: Records) -> Applied:
        """The same for one record of the page.

        What does not depend on a record is not found again.
        """
        return Applied(
            shown,
            records,
            self.new,
            {keys: hashes for keys, hashes in self._known.items() if not keys.is_of_record},
        )

    def _hashes(self, rule: Rule) -> Hashes:
        if isinstance(rule.values, Shown):
            return self.shown[rule.values.column]
        if rule.values not in self._known:
            self._known[rule.values] = self._keys(rule.values)
        return self._known[rule.values]

    def _keys(self, values: KeysOf) -> Hashes:
        found = []
        for part in values.parts:
            chosen = (
                self.new[part.alias]
                if part.rules is None
                else self.records.matching(part.alias, self.conditions(part.rules))
            )
            found.append(self.records.keys(part.alias, part.expressions, chosen))
        return np.unique(np.concatenate(found))


def rules_of(query: ExplainedQuery, names: Sequence[str]) -> Rules:
    """The rules for records that show columns of these names."""
    stages = query.stages
    if stages is None:
        return Rules(tuple(() for _ in query.uses))
    shown = tuple(column for column in query.columns if str(column.name()) in names and can_be_key(column))
    search = _Search(stages, None if query.timed else ChangedRows(stages))
    search.stage(len(stages.values) - 1, [(column, Shown(str(column.name()))) for column in shown])
    return Rules(tuple(tuple(search.found.get(scan, ())) for scan in stages.inputs), shown, search.touched)


def shown_by(rules: Rules, records: pa.Table) -> dict[str, Hashes]:
    """Hashes of the values of rows of the output: one for each, by column."""
    found = {}
    for column in rules.shown:
        name = str(column.name())
        values = cast_array(one_array(records.column(name)), arrow_type(column))
        found[name] = key_hashes([values], len(values))
    return found


def applied(rules: Rules, shown: Mapping[str, Hashes], records: Records, new: Mapping[str, Places]) -> Applied:
    """Rules for all records of a page.

    `new` are the records that the block consumed, by input.
    """
    return Applied({name: np.unique(hashes) for name, hashes in shown.items()}, records, new)


class _Search:
    """Finds the rules of a query.

    `changed` is there where new records may choose rows.
    """

    def __init__(self, stages: KeyedStages, changed: ChangedRows | None) -> None:
        self._stages = stages
        self._changed = changed
        self.found: dict[StageScan, list[Rule]] = {}
        self.touched = False

    def stage(self, number: int, wanted: Sequence[tuple[Expression, Values]]) -> None:
        """Rules for the scans of a stage, and of stages below, for rows of its result."""
        value = self._stages.values[number]
        reached = [part for expression, values in wanted if (part := self._push(value, expression, values))]
        for subplan in value.subplans:
            if subplan.components:
                self._complete(subplan, reached, is_last=number == len(self._stages.values) - 1)
        for scan in [scan for subplan in value.subplans for scan in (*subplan.scans, *subplan.wholes)]:
            if scan.kind == "stage":
                below = [(rule.expressions[0], rule.values) for rule in self.found.get(scan, ())]
                self.stage(int(scan.source), below)

    def _push(self, value: Value, expression: Expression, values: Values) -> Component | None:
        """Values over a result as values over rows of the scans behind it."""
        if self._stages.is_blocked(expression):
            return None
        part = self._stages.tracer.column(expression, value)
        for scan, over in (part or {}).items():
            self.found.setdefault(scan, []).append(Rule((over,), values))
        return part

    def _complete(self, subplan: Subplan, reached: Sequence[Component], *, is_last: bool) -> None:
        """Gives scans that no value reaches keys of others, or of what changed."""
        parts = ([scan for scan in subplan.scans if scan in each] for each in reached)
        known = [part for part in parts if part]
        source = next((part for part in known if are_inputs(part) and len(part) < len(subplan.scans)), None)
        if source is not None:
            rows = {scan: tuple(self.found[scan]) for scan in source}
            for scan in subplan.scans:
                if scan not in source:
                    self.found.setdefault(scan, []).extend(_keyed(subplan, scan, rows))
        elif not known and is_last and self._changed is not None and not subplan.always:
            # A record of the last stage is in the block because rows of its key changed.
            touched = self._changed.keys(subplan)
            self.touched = self.touched or touched is not None
            for scan in subplan.scans if touched is not None else ():
                self.found.setdefault(scan, []).extend(rules_for(subplan, scan, touched or ()))


def _keyed(subplan: Subplan, scan: StageScan, rows: Mapping[StageScan, tuple[Rule, ...]]) -> list[Rule]:
    """The keys of rows as rules for a scan.

    Of an input all components are one rule, of a stage each is its own.
    """
    count = len(subplan.components or ())
    together = [range(count)] if scan.kind == "input" else [range(at, at + 1) for at in range(count)]
    found = []
    for places in together:
        parts = [KeyedRows(str(each.source), components_of(subplan, each, places), own) for each, own in rows.items()]
        found.append(Rule(components_of(subplan, scan, places), KeysOf(tuple(parts))))
    return found


def named_columns(query: ExplainedQuery) -> dict[str, int]:
    """Ids of the columns of the result, by name."""
    return {str(column.name()): expr_id(column) for column in query.columns}
