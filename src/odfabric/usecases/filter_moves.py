"""Decide which subscriptions a move of a head makes no event for.

Invariant: a move that cannot be judged makes events for all. Not here: what that does to the numbers and intervals of events (`ports.outbox`).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from odfabric.errors import Corrupt, InvalidBlock, NotFound
from odfabric.model.commit import OutboxMessage
from odfabric.ports.subscriptions import Subscriptions
from odfabric.usecases.head_move import HeadMoves

_log = logging.getLogger(__name__)

SUBSCRIPTIONS_MAX = 10_000
"""Subscriptions of one dataset that are judged; later ones get every event."""


@dataclass(frozen=True, slots=True)
class MoveFilter:
    """The filters of subscriptions over what moves brought."""

    subscriptions: Subscriptions
    moves: HeadMoves

    def skipped(self, message: OutboxMessage) -> frozenset[str]:
        """Ids of subscriptions that want no event for this move."""
        if message.new_head is None:
            return frozenset()
        found = self.subscriptions.of_dataset(message.dataset_id, limit=SUBSCRIPTIONS_MAX)
        wanting_data = frozenset(each.id for each in found if each.only_with_data)
        if not wanting_data:
            return frozenset()
        try:
            facts = self.moves.facts(message.dataset_id, message.old_head, message.new_head)
        except (NotFound, Corrupt, InvalidBlock) as error:
            _log.error("dataset %s, head %s: not filtered: %s", message.dataset_id, message.new_head, error)
            return frozenset()
        return wanting_data if facts is not None and facts.records == 0 else frozenset()
