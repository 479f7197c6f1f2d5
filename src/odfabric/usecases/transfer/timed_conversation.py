"""A Smart conversation with a deadline that grows with the bytes announced.

Owns the deadline of both roles. Invariants: messages that keep coming do not prolong it, bytes that a peer announces prolong it at the least
rate and never beyond the longest conversation; what is said already is not taken back, so only waiting for the peer ends by it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from odfabric.errors import OdfError
from odfabric.ports.transfer.conversations import Closed, Conversation


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPace:
    """How long a conversation may take.

    `base_s` whatever is moved, and the announced bytes at `bytes_per_s_min`; `total_s_max` at most. `seconds` is a monotonic clock.
    """

    base_s: float
    bytes_per_s_min: int
    total_s_max: float
    seconds: Callable[[], float]

    def total_s(self, announced_bytes: int) -> float:
        """The longest time for so many bytes, in seconds."""
        return min(self.total_s_max, self.base_s + max(0, announced_bytes) / self.bytes_per_s_min)


class TimedConversation:
    """`ports.transfer.conversations.Conversation` that ends in time."""

    def __init__(self, talk: Conversation, pace: TransferPace, *, overdue: Callable[[str], OdfError]) -> None:
        """`overdue` makes the error of a conversation that takes too long, of its message."""
        self._talk, self._pace, self._overdue = talk, pace, overdue
        self._started = pace.seconds()
        self._total_s = pace.total_s(0)

    def announce(self, announced_bytes: int) -> None:
        """Move the deadline: the peers move so many bytes in all."""
        self._total_s = self._pace.total_s(announced_bytes)

    def say(self, text: str) -> None:
        """See the port."""
        self._talk.say(text)

    def hear(self, *, seconds_max: float) -> str | Closed | None:
        """See the port. Raises what `overdue` makes when the conversation takes too long."""
        left_s = self._started + self._total_s - self._pace.seconds()
        if left_s <= 0:
            raise self._too_long()
        found = self._talk.hear(seconds_max=min(seconds_max, left_s))
        if found is None and left_s <= seconds_max:
            raise self._too_long()
        return found

    def end(self, code: int, reason: str) -> None:
        """See the port."""
        self._talk.end(code, reason)

    def _too_long(self) -> OdfError:
        return self._overdue(f"too slow: not done in {self._total_s:g} s")
