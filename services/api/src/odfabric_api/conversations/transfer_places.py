"""Places for Smart conversations, and each caller's share of them.

Owns who may hold how many. Invariants: a place of the node is taken by the first message of a client, never by a client that is silent; one
account, or strangers from one address, hold no more than their share, and all strangers together leave places for accounts; a refusal names the
limit and when to try again. Used on the event loop only.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from odfabric.domain.people.access import Subject
from odfabric.settings import Settings
from odfabric_api.capacity import AccountSlots, Slots

TRY_AGAIN_S = 10
"""When a caller that found no place may try again; transfers take longer than other requests."""
WAITING_FOR_EACH_PLACE = 2
"""Clients whose first message is awaited, for each place."""


class TransferPlaces:
    """The places of one service."""

    def __init__(self, settings: Settings) -> None:
        places, strangers = settings.smart_transfers_at_once_max, settings.smart_transfers_anonymous_max
        self.share = settings.smart_transfers_per_account_max
        self.places = Slots(places, limit="smart_transfers_at_once_max", retry_after_s=TRY_AGAIN_S)
        self.strangers = Slots(strangers, limit="smart_transfers_anonymous_max", retry_after_s=TRY_AGAIN_S)
        self._shares = AccountSlots(limit="smart_transfers_per_account_max", retry_after_s=TRY_AGAIN_S)
        self._waiting = Slots(
            WAITING_FOR_EACH_PLACE * places, limit="smart_transfers_at_once_max", retry_after_s=TRY_AGAIN_S
        )
        self._waiting_strangers = Slots(
            WAITING_FOR_EACH_PLACE * strangers, limit="smart_transfers_anonymous_max", retry_after_s=TRY_AGAIN_S
        )

    @contextmanager
    def share_of(self, caller: Subject) -> Iterator[None]:
        """A part of the caller's share, for the whole conversation, silence included.

        Raises LimitExceeded if it is used up, or if the node has no place now.
        """
        asker = f"address:{caller.address}" if caller.account is None else str(caller.account.id)
        with self._shares.taking_one(asker, self.share):
            self.places.check()
            if caller.account is None:
                self.strangers.check()
            yield

    @contextmanager
    def waiting(self, caller: Subject) -> Iterator[None]:
        """Room to wait for the first message. Raises LimitExceeded."""
        with self._taking(caller, self._waiting, self._waiting_strangers):
            yield

    @contextmanager
    def place(self, caller: Subject) -> Iterator[None]:
        """A place of the node, from the first message on. Raises LimitExceeded."""
        with self._taking(caller, self.places, self.strangers):
            yield

    @contextmanager
    def _taking(self, caller: Subject, everybody: Slots, strangers: Slots) -> Iterator[None]:
        if caller.account is not None:
            with everybody.taking_one():
                yield
        else:
            with strangers.taking_one(), everybody.taking_one():
                yield
