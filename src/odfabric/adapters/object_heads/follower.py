"""What a node does by itself to hear of commits that other nodes made.

Owns the rounds: the place of an outbox that all nodes would share is taken by looking at every `refs/head`. Invariant: a dataset that
cannot be read keeps no other from being followed.
"""

from __future__ import annotations

import logging

from odfabric.adapters.object_heads.catalog import ObjectHeadCatalog
from odfabric.adapters.object_heads.chains import ObjectHeadChains
from odfabric.errors import AlreadyExists, Corrupt
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.ports.datasets.commit_intents import CommitIntents
from odfabric.ports.node.clock import Clock

_log = logging.getLogger(__name__)

SETTLED_AFTER_S = 10
"""Age of an intent whose process is taken for dead. If it is not, nothing happens but that a commit is made by two."""


class HeadFollower:
    """Rounds with a pause of `every_s` seconds.

    The first one settles all intents, for it comes after a start.
    """

    def __init__(
        self,
        chains: ObjectHeadChains,
        catalog: ObjectHeadCatalog,
        intents: CommitIntents,
        *,
        clock: Clock,
        every_s: float,
    ) -> None:
        self._chains = chains
        self._catalog = catalog
        self._intents = intents
        self._clock = clock
        self._pause_ns = int(every_s * NANOS_PER_SECOND)
        self._next = Instant(0)
        self._has_settled = False

    def step(self) -> None:
        """A round, if it is time for one.

        Raises Determinate or Indeterminate if database or objects fail.
        """
        now = self._clock.now()
        if now >= self._next:
            self._settle(now)
            self._catalog.find_new()
            self._follow_all()
            self._next = Instant(self._clock.now().epoch_ns + self._pause_ns)

    def _settle(self, now: Instant) -> None:
        aged = Instant(now.epoch_ns - SETTLED_AFTER_S * NANOS_PER_SECOND)
        for intent in self._intents.all():
            if not self._has_settled or intent.message.occurred_at < aged:
                self._chains.settle(intent)
        self._has_settled = True

    def _follow_all(self) -> None:
        for entry in self._catalog.entries():
            try:
                # A database that had the heads of record before has names that nobody has claimed.
                if self._chains.head(entry.id) is not None:
                    self._chains.names.claim_again(entry)
            except (Corrupt, AlreadyExists) as error:
                _log.error("dataset %s is not followed: %s", entry.alias, error)
