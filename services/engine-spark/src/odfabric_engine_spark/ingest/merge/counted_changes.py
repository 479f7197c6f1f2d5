"""Counts of what a merge did to rows, from the kinds of the records that it made."""

from __future__ import annotations

from collections.abc import Mapping

from odfabric.model.engine import RowChanges
from odfabric.model.operation import OperationType
from odfabric.model.source import (
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
)


def row_changes(strategy: MergeStrategy, operations: Mapping[int, int], *, given: int | None) -> RowChanges:
    """Counts of `given` rows (None: not counted) and of a strategy's records by kind."""
    added, retracted, before, corrected = (
        operations.get(kind.value, 0)
        for kind in (
            OperationType.APPEND,
            OperationType.RETRACT,
            OperationType.CORRECT_FROM,
            OperationType.CORRECT_TO,
        )
    )
    match strategy:
        case MergeStrategyAppend():
            return RowChanges(added=added)
        case MergeStrategyChangelogStream():
            used = added + retracted + before + corrected
        case MergeStrategySnapshot():
            used = added + corrected  # what is retracted was not given
        case _:
            used = added + retracted + corrected
    others = None if given is None else given - used
    is_ledger = isinstance(strategy, MergeStrategyLedger)
    return RowChanges(
        added=added,
        corrected=corrected,
        retracted=retracted,
        unchanged=0 if is_ledger else others,
        known_keys=others if is_ledger else 0,
    )
