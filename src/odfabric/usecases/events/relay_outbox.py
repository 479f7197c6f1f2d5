"""Act on commits and other events: publish heads, start followers, deliver.

Invariant: at least once, in commit order; publishing and fanning out are idempotent, so a relay that dies is simply run again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odfabric.model.commit import PendingMessage
from odfabric.model.identity import DatasetId
from odfabric.model.subscriptions.event import CHAIN_EVENTS, Event
from odfabric.ports.node.clock import Clock
from odfabric.ports.subscriptions.outbox import Outbox
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.events.chain_events import chain_events
from odfabric.usecases.events.filter_moves import MoveFilter

BATCH_MESSAGES = 100


def relay_outbox(
    *,
    outbox: Outbox,
    commits: Commits,
    repository: Repository,
    filters: MoveFilter,
    clock: Clock,
    followers: Sequence[Callable[[DatasetId], object]] = (),
) -> int:
    """Handle the oldest messages; returns how many, 0 if there was nothing to do.

    `followers` are called with each dataset whose head moved.
    """
    pending = outbox.pending(limit=BATCH_MESSAGES)
    for dataset in {entry.message.dataset_id for entry in pending if entry.message.event is None}:
        commits.publish(dataset)
        for follow in followers:
            follow(dataset)
    for entry in pending:
        derived = _derived(entry, outbox, repository)
        outbox.fan_out(entry.id, now=clock.now(), derived=derived, skipped=filters.skipped(entry.message))
    return len(pending)


def _derived(pending: PendingMessage, outbox: Outbox, repository: Repository) -> list[Event]:
    """Blocks are read only if a subscription receives what they cause."""
    if pending.message.event is not None or pending.message.new_head is None:
        return []
    wanted = outbox.wanted(pending) & CHAIN_EVENTS
    return chain_events(pending.message, wanted, repository=repository) if wanted else []
