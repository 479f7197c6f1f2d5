"""Draw the consequences of commits: publish heads, make deliveries.

Invariant: at least once, in commit order; publishing and fanning out are idempotent, so a relay that dies is simply run again.
"""

from __future__ import annotations

from odfabric.ports.clock import Clock
from odfabric.ports.outbox import Outbox
from odfabric.usecases.commit import Commits

BATCH_MESSAGES = 100


def relay_outbox(*, outbox: Outbox, commits: Commits, clock: Clock) -> int:
    """Handle the oldest messages; returns how many, 0 if there was nothing to do."""
    pending = outbox.pending(limit=BATCH_MESSAGES)
    for dataset in {entry.message.dataset_id for entry in pending}:
        commits.publish(dataset)
    for entry in pending:
        outbox.fan_out(entry.id, now=clock.now())
    return len(pending)
