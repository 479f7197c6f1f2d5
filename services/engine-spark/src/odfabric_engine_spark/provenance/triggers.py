"""Triggers: the new records without which a block would not write a record.

Owns the search. Candidates are the new records of the rows that can matter; a set of them triggers the record if the state before the block
with these alone, at the watermark after it, makes the same change. No record at all may be enough: the watermark did it. Both halves of a
correction are one change: half of it may be enough for the query, and says nothing to people.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from odfabric.model.provenance import ProvenanceEffort
from odfabric_engine_spark.arrays.array_types import Longs, Mask
from odfabric_engine_spark.provenance.evaluation import Budget, EvaluationsSpent, Search, World
from odfabric_engine_spark.provenance.states import Pool, State
from odfabric_engine_spark.provenance.sufficient import least_of

_REDUCED_MAX = 64
"""Most candidates of which a least set is sought."""
_WORLDS_MAX = 48
"""Worlds for one record, unless a least set is asked for."""

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
    pool: Pool, own: Mask, before: State, after: State, *, added: bool, known: int, effort: ProvenanceEffort
) -> Search[Trigger]:
    """The trigger of a record; `added` for an append or the new row of a correction.

    `own` are the records that can matter for it. `known` is how many such rows there are after the block if it is added, else before it.
    Where nothing is checked, candidates are named as they are.
    """
    old = pool.came(before.ends) & own
    new = np.flatnonzero(pool.came(after.ends) & ~old & own)
    if effort is ProvenanceEffort.LINEAGE:
        return Trigger(new, by_watermark=False, note="candidates, not checked")
    try:
        # All that is asked first, in one run.
        first = [np.zeros(0, np.int64), *([] if added else [new])]
        states = [World(np.flatnonzero(old), before.watermark_us)] if added else []
        counts = yield [*states, *(World(np.flatnonzero(old | pool.mask(each)), after.watermark_us) for each in first)]
        base = counts[0] if added else known
        changes = _Changes(pool, old, new, after, added=added, known=known, base=base)
        if len(new) and (yield from changes.of([np.zeros(0, np.int64)]))[0]:
            return Trigger(np.zeros(0, np.int64), by_watermark=True)
        if not (yield from changes.of([new]))[0]:
            return Trigger(new, by_watermark=False, note=_NOT_NET)
    except EvaluationsSpent:
        return Trigger(new, by_watermark=False, note="candidates, not checked: no more evaluations are allowed")
    units = pool.changes(new)
    if len(units) <= 1 or len(units) > _REDUCED_MAX:
        return Trigger(new, by_watermark=not len(new))
    allowed = Budget(_REDUCED_MAX**2 if effort is ProvenanceEffort.MINIMAL else _WORLDS_MAX)

    def tried(sets: Sequence[Longs]) -> Search[list[bool]]:
        answers = yield from changes.of([records(some) for some in sets])
        for at in range(len(answers)):
            try:
                allowed.spend()
            except EvaluationsSpent:
                if not at:
                    raise
                return answers[:at]
        return answers

    def records(some: Longs) -> Longs:
        return np.concatenate([np.zeros(0, np.int64), *(units[at] for at in some)])

    found, done = yield from least_of(np.arange(len(units)), tried)
    note = None if done else "perhaps more records than needed: ask for a minimal answer"
    return Trigger(records(found), by_watermark=False, note=note)


class _Changes:
    """Whether sets of new records make the change of a record."""

    def __init__(self, pool: Pool, old: Mask, new: Longs, after: State, *, added: bool, known: int, base: int) -> None:
        self._pool = pool
        self._old = old
        self._after = after
        self._added = added
        self._base = base
        # The state after the block has all of them, and how many such rows an added record has then is known.
        self._of_all = (len(new), known > base) if added else None
        self._well_formed = not pool.owed(old | pool.mask(new))

    def of(self, sets: Sequence[Longs]) -> Search[list[bool]]:
        """Answers for the first few sets, at least for one. Raises EvaluationsSpent."""
        found: list[bool] = []
        waiting: list[Longs] = []
        for some in sets:
            taken = self._old | self._pool.mask(some)
            known = self._known(taken, some)
            if known is not None and waiting:
                break
            if known is not None:
                found.append(known)
            else:
                waiting.append(np.flatnonzero(taken))
        if found or not waiting:
            return found
        counts = yield [World(numbers, self._after.watermark_us) for numbers in waiting]
        return [count > self._base if self._added else count < self._base for count in counts]

    def _known(self, taken: Mask, some: Longs) -> bool | None:
        """An answer that needs no world."""
        if self._well_formed and self._pool.owed(taken):
            return False  # half of what came: a row is withdrawn that is not there
        if self._of_all is not None and len(some) == self._of_all[0]:
            return self._of_all[1]
        return None
