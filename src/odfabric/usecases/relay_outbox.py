"""Draw the consequences of commits: publish heads, tell who follows them, make deliveries.

Invariant: at least once, in commit order; publishing and fanning out are idempotent, so a relay that dies is simply run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odfabric.model.identity import DatasetId
from odfabric.ports.clock import Clock
from odfabric.ports.outbox import Outbox
from odfabric.usecases.commit import Commits
from odfabric.usecases.filter_moves import MoveFilter

BATCH_MESSAGES = 100


def relay_outbox(
    *,
    outbox: Outbox,
    commits: Commits,
    filters: MoveFilter,
    clock: Clock,
    followers: Sequence[Callable[[DatasetId], object]] = (),
) -> int:
    """Handle the oldest messages; returns how many, 0 if there was nothing to do. `followers` are told each dataset of them."""
    pending = outbox.pending(limit=BATCH_MESSAGES)
    for dataset in {entry.message.dataset_id for entry in pending}:
        commits.publish(dataset)
        for follow in followers:
            follow(dataset)
    for entry in pending:
        outbox.fan_out(entry.id, now=clock.now(), skipped=filters.skipped(entry.message))
    return len(pending)
