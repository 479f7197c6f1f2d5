"""Triggers: the new records without which a block would not write a record.

Owns the search. Candidates are the new records of the rows that can matter; a set of them triggers the record if the state before the block
with these alone, at the watermark after it, makes the same change. No record at all may be enough: the watermark did it. Both halves of a
correction are one change: half of it may be enough for the query, and says nothing to people.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.model.provenance import ProvenanceEffort
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.provenance.evaluation import Budget, Evaluation, EvaluationsSpent
from odfabric_engine_spark.provenance.states import State
from odfabric_engine_spark.provenance.sufficient import least_of

_REDUCED_MAX = 64
"""Most candidates of which a least set is sought: each trial is a run of the query."""
_TRIALS_MAX = 12
"""Trials for one record, unless a least set is asked for."""

_NOT_NET = (
    "candidates, not checked: the net change of the block does not hold this record; it came and went within the block, or an input "
    "withdraws rows that are not there"
)


@dataclass(frozen=True, slots=True)
class Trigger:
    """Records by number. `by_watermark`: there are none, and a watermark did it."""

    numbers: Longs
    by_watermark: bool
    note: str | None = None


def trigger_of(
    evaluation: Evaluation,
    record: pa.Table,
    before: State,
    after: State,
    *,
    added: bool,
    known: int,
    effort: ProvenanceEffort,
) -> Trigger:
    """The trigger of a record; `added` for an append or the new row of a correction.

    `known` is how many such rows there are after the block if it is added, else before it. Where nothing is checked, candidates are named
    as they are.
    """
    pool = evaluation.pool
    old = pool.came(before.ends)
    new = np.flatnonzero(pool.came(after.ends) & ~old)
    if effort is ProvenanceEffort.LINEAGE:
        return Trigger(new, by_watermark=False, note="candidates, not checked")
    try:
        base = evaluation.count(old, record, before.watermark_us) if added else known
        well_formed = not pool.owed(old | pool.mask(new))

        def changes(some: Longs) -> bool:
            taken = old | pool.mask(some)
            if well_formed and pool.owed(taken):
                return False  # half of what came: a row is withdrawn that is not there
            if added and len(some) == len(new):
                return known > base
            count = evaluation.count(taken, record, after.watermark_us)
            return count > base if added else count < base

        if len(new) and changes(np.zeros(0, np.int64)):
            return Trigger(np.zeros(0, np.int64), by_watermark=True)
        if not changes(new):
            return Trigger(new, by_watermark=False, note=_NOT_NET)
    except EvaluationsSpent:
        return Trigger(new, by_watermark=False, note="candidates, not checked: no more evaluations are allowed")
    units = pool.changes(new)
    if len(units) <= 1 or len(units) > _REDUCED_MAX:
        return Trigger(new, by_watermark=not len(new))
    trials = Budget(_REDUCED_MAX**2 if effort is ProvenanceEffort.MINIMAL else _TRIALS_MAX)

    def tried(some: Longs) -> bool:
        trials.spend()
        return changes(records(some))

    def records(some: Longs) -> Longs:
        return np.concatenate([np.zeros(0, np.int64), *(units[at] for at in some)])

    found, done = least_of(np.arange(len(units)), tried)
    note = None if done else "perhaps more records than needed: ask for a minimal answer"
    return Trigger(records(found), by_watermark=False, note=note)
