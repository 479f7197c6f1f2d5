"""Compaction: several batches made into one, and put in their place.

Owns how a merged batch is written. Invariants: a merged batch shows what its inputs showed from its since on; nothing is lost if a
merge is given up at any point, for until it is applied only blobs were written that no version names. Not here: which batches
(`tiers`), the merge itself (`merge`).
"""

from __future__ import annotations

from collections.abc import Sequence

from odfabric_persist import state as transitions
from odfabric_persist.batch import Parts, new_id
from odfabric_persist.errors import UsageError
from odfabric_persist.frontier import Frontier, at_most
from odfabric_persist.merge import MergeLimits, Window, merged
from odfabric_persist.rows import in_pieces
from odfabric_persist.state import Batch


def compact(
    parts: Parts,
    inputs: Sequence[Batch],
    lower: int,
    upper: Frontier,
    since: Frontier,
    *,
    chunk_rows: int | None = None,
    limits: MergeLimits | None = None,
    level: int | None = None,
) -> Batch:
    """One batch of several neighbours, times advanced to `since`, in one run.

    The shard's state does not change.

    Raises UsageError: `non-consecutive`, `since-regression`.
    """
    bounds = [bound for batch in inputs for bound in (batch.lower, batch.upper)]
    if not inputs or (bounds[0], bounds[-1]) != (lower, upper) or bounds[1:-1:2] != bounds[2:-1:2]:
        raise UsageError("non-consecutive", f"the inputs do not tile [{lower}, {upper})")
    if not all(at_most(batch.since, since) for batch in inputs):
        raise UsageError("since-regression", f"an input was advanced beyond {since}")
    found = level if level is not None else 1 + max(batch.level for batch in inputs)
    with parts.removed_if_it_fails() as written:
        tables = merged(parts, inputs, Window(to=since), limits or MergeLimits())
        for table in in_pieces(tables, chunk_rows or parts.limits.part_rows):
            # What was merged leaves the state, which would not stay small otherwise.
            written.append(parts.write(table, small_in_state=False))
    return Batch(new_id(), lower, upper, since, (tuple(written),) if written else (), found)


def apply(parts: Parts, inputs: Sequence[Batch], output: Batch) -> bool:
    """Put a merged batch in the place of its inputs; whether that was done.

    What is of no use is removed.
    """
    names = tuple(batch.id for batch in inputs)
    machine = parts.machine
    after = machine.apply(lambda state: transitions.apply_merge(state, names, output, now_ms=machine.now_ms()))
    if any(batch.id == output.id for batch in after.batches):
        return True
    parts.discard(output)
    return False
