"""Decide which subscriptions a move of a head makes no event for.

Invariant: a move that cannot be judged makes events for all; so does one in a column that its rows do not have. Not here: what that does to the numbers and intervals of events (`ports.subscriptions.outbox`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass

from odfabric.errors import ChainsDiverged, Corrupt, InvalidBlock, InvalidData, LimitExceeded, NotFound
from odfabric.model.commit import OutboxMessage
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.subscriptions.subscription import Subscription
from odfabric.ports.subscriptions.subscriptions import Subscriptions
from odfabric.usecases.chain.head_move import HeadMoves
from odfabric.usecases.events.unchanged_columns import UnchangedColumns

_log = logging.getLogger(__name__)

SUBSCRIPTIONS_MAX = 10_000
"""Subscriptions of one dataset that are judged; later ones get every event."""


@dataclass(frozen=True, slots=True)
class MoveFilter:
    """The filters of subscriptions over what moves brought."""

    subscriptions: Subscriptions
    moves: HeadMoves
    unchanged: UnchangedColumns

    def skipped(self, message: OutboxMessage) -> frozenset[str]:
        """Ids of subscriptions that want no event for this move."""
        if message.new_head is None:
            return frozenset()
        found = self.subscriptions.of_dataset(message.dataset_id, limit=SUBSCRIPTIONS_MAX)
        choosy = [each for each in found if each.moves.skips]
        if not choosy:
            return frozenset()
        try:
            return self._skipped(choosy, message.dataset_id, message.old_head, message.new_head)
        except (ChainsDiverged, LimitExceeded, NotFound, Corrupt, InvalidBlock, InvalidData) as error:
            _log.error("dataset %s, head %s: not filtered: %s", message.dataset_id, message.new_head, error)
            return frozenset()

    def _skipped(
        self, choosy: Sequence[Subscription], dataset: DatasetId, old_head: Multihash | None, new_head: Multihash
    ) -> frozenset[str]:
        facts = self.moves.facts(dataset, old_head, new_head)
        if facts is None:
            return frozenset()
        if facts.records == 0:
            return frozenset(each.id for each in choosy)
        by_columns = [each for each in choosy if each.moves.columns]
        if not by_columns:
            return frozenset()
        unchanged = self.unchanged.of_move(dataset, old_head, new_head)
        return frozenset(each.id for each in by_columns if each.moves.columns <= unchanged)
