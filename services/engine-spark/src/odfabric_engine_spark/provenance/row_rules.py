"""Rules by which rows of inputs are chosen, and the keys of what a block changed.

Owns the forms of rules, and rules for rows of keys that changed through stages: a row of a stage's result changes where rows of its key do,
in any of the stage's scans; its columns have the values of these rows. Invariant: the keys are at least those of all rows that the new
records changed. Not here: which values choose rows of a record (`conditions`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan, Subplan
from odfabric_engine_spark.provenance.keyed_stages import KeyedStages
from odfabric_engine_spark.spark.catalyst.plan_nodes import Expression


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """The values of records in a column of the result."""

    column: str

    @property
    def is_of_record(self) -> bool:
        """They differ from record to record."""
        return True


@dataclass(frozen=True, slots=True, eq=False)
class KeyedRows:
    """Expressions over rows of one use of an input.

    `rules` choose the rows; None: the new records.
    """

    alias: str
    expressions: tuple[Expression, ...]
    rules: tuple[Rule, ...] | None


@dataclass(frozen=True, slots=True, eq=False)
class KeysOf:
    """The keys of rows of all these uses."""

    parts: tuple[KeyedRows, ...]

    @property
    def is_of_record(self) -> bool:
        """Whether the values differ from record to record."""
        return any(rule.values.is_of_record for part in self.parts for rule in part.rules or ())


Values: TypeAlias = Shown | KeysOf


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    """Expressions over a row have one of these values, if the row matters."""

    expressions: tuple[Expression, ...]
    values: Values


Pushed: TypeAlias = tuple[Expression, Values]
"""An expression over a row of a scan, and the values of which it has one."""


class ChangedRows:
    """Keys of the rows that new records changed, in the scans of stages."""

    def __init__(self, stages: KeyedStages) -> None:
        self._stages = stages

    def keys(self, subplan: Subplan) -> tuple[KeysOf, ...] | None:
        """The keys of what changed in a subplan: whole, or each component alone.

        None where they are not known.
        """
        count = len(subplan.components or ())
        if are_inputs(subplan.scans):
            together = range(count)
            parts = [
                KeyedRows(str(scan.source), components_of(subplan, scan, together), None) for scan in subplan.scans
            ]
            return (KeysOf(tuple(parts)),)
        found = []
        for at in range(count):
            rows = [self._changed(scan, (subplan.components or ())[at][scan]) for scan in subplan.scans]
            known = [each for each in rows if each is not None]
            if len(known) < len(rows):
                return None
            found.append(KeysOf(tuple(part for each in known for part in each)))
        return tuple(found)

    def _changed(self, scan: StageScan, expression: Expression) -> list[KeyedRows] | None:
        """Rows of inputs with the values of an expression over changed rows."""
        if scan.kind == "input":
            return [KeyedRows(str(scan.source), (expression,), None)]
        if scan.kind != "stage" or self._stages.is_blocked(expression):
            return None
        value = self._stages.values[int(scan.source)]
        if any(each.always or each.wholes for each in value.subplans):
            return None
        found: list[KeyedRows] = []
        for below, over in (self._stages.tracer.column(expression, value) or {}).items():
            subplan = next(each for each in value.subplans if below in each.scans)
            rows = self._of_touched_keys(subplan, below, over)
            if rows is None:
                return None
            found += rows
        return found or None

    def _of_touched_keys(self, subplan: Subplan, scan: StageScan, expression: Expression) -> list[KeyedRows] | None:
        if subplan.components is None:
            return self._changed(scan, expression)  # each row is mapped alone
        touched = self.keys(subplan) if subplan.components else None
        if touched is None:
            return None
        if scan.kind == "input":
            return [KeyedRows(str(scan.source), (expression,), tuple(rules_for(subplan, scan, touched)))]
        pushed = [(subplan.components[at][scan], keys) for at, keys in enumerate(touched)]
        return self._chosen(scan, expression, pushed)

    def _chosen(self, scan: StageScan, expression: Expression, rules: Sequence[Pushed]) -> list[KeyedRows] | None:
        """Rows of inputs with the values of an expression over the chosen rows."""
        if scan.kind == "input":
            return [KeyedRows(str(scan.source), (expression,), tuple(Rule((over,), keys) for over, keys in rules))]
        if scan.kind != "stage" or self._stages.is_blocked(expression):
            return None
        value, tracer = self._stages.values[int(scan.source)], self._stages.tracer
        traced = [(tracer.column(over, value) or {}, keys) for over, keys in rules if not self._stages.is_blocked(over)]
        found: list[KeyedRows] = []
        for below, over in (tracer.column(expression, value) or {}).items():
            reached = [(part[below], keys) for part, keys in traced if below in part]
            rows = self._chosen(below, over, reached) if reached else None
            if rows is None:
                return None
            found += rows
        return found or None


def rules_for(subplan: Subplan, scan: StageScan, keys: Sequence[KeysOf]) -> list[Rule]:
    """Rules for rows of a scan: one for its key, or for each component."""
    count = len(subplan.components or ())
    if scan.kind == "input" and len(keys) == 1:
        return [Rule(components_of(subplan, scan, range(count)), keys[0])]
    return [Rule(components_of(subplan, scan, range(at, at + 1)), each) for at, each in enumerate(keys)]


def are_inputs(scans: Sequence[StageScan]) -> bool:
    """Whether rows of inputs come in at all of them."""
    return all(scan.kind == "input" for scan in scans)


def components_of(subplan: Subplan, scan: StageScan, places: range) -> tuple[Expression, ...]:
    """Some components of a subplan's key, over rows of a scan."""
    components = subplan.components or ()
    return tuple(components[at][scan] for at in places)
