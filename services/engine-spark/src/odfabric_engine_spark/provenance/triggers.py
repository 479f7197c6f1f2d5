"""What made a block write a record: the new records without which it would not have.

Owns the search. Candidates are the new records of the rows that can matter; a set of them triggers the record if the state before the block
with these alone, at the watermark after it, makes the same change. No record at all may be enough: the watermark did it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.provenance.evaluation import Evaluation, EvaluationsSpent
from odfabric_engine_spark.provenance.states import State
from odfabric_engine_spark.provenance.sufficient import least_of

_REDUCED_MAX = 64
"""Most candidates of which a least set is sought: each trial is a run of the query."""

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
    evaluation: Evaluation, record: pa.Table, before: State, after: State, *, added: bool, checked: bool
) -> Trigger:
    """The trigger of a record; `added` for an append or the new row of a correction.

    Unless `checked`, candidates are named as they are.
    """
    pool = evaluation.pool
    old = pool.came(before.ends)
    new = np.flatnonzero(pool.came(after.ends) & ~old)
    if not checked:
        return Trigger(new, by_watermark=False, note="candidates, not checked")
    try:
        base = evaluation.count(pool.there(old), record, before.watermark_us)
        well_formed = not pool.owed(old | pool.mask(new))

        def changes(some: Longs) -> bool:
            taken = old | pool.mask(some)
            if well_formed and pool.owed(taken):
                return False  # half of what came: a row is withdrawn that is not there
            count = evaluation.count(pool.there(taken), record, after.watermark_us)
            return count > base if added else count < base

        if changes(np.zeros(0, np.int64)):
            return Trigger(np.zeros(0, np.int64), by_watermark=True)
        if not len(new) or not changes(new):
            return Trigger(new, by_watermark=False, note=_NOT_NET)
    except EvaluationsSpent:
        return Trigger(new, by_watermark=False, note="candidates, not checked: no more evaluations are allowed")
    if len(new) == 1 or len(new) > _REDUCED_MAX:
        return Trigger(new, by_watermark=False)
    found, done = least_of(new, changes)
    note = None if done else "perhaps more than needed: no more evaluations are allowed"
    return Trigger(found, by_watermark=False, note=note)
