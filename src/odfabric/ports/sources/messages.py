"""Messages of a subscribed broker: received, committed, then acknowledged.

Invariant: what was not acknowledged is delivered again, so a message is ingested at least once, whatever dies in between. Messages
of QoS 0 are the exception: a broker sends them once and keeps none.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from odfabric.model.source import FetchStepMqtt


class MessageBatch(Protocol):
    """Messages received on a connection that stays open as long as the batch is."""

    @property
    def count(self) -> int:
        """Rows in the file."""

    @property
    def more(self) -> bool:
        """Whether the broker may hold more that are sent once these are acknowledged."""

    def acknowledge(self) -> None:
        """Tell the broker that all of them are durable here.

        Raises Determinate: then they come again.
        """


class MessageSource(Protocol):
    """Subscribes to a broker's topics in a session kept between connections."""

    def receive(
        self, step: FetchStepMqtt, *, client_id: str, ingested_before: bool, messages_max: int, into: Path
    ) -> AbstractContextManager[MessageBatch]:
        """Receive until nothing more arrives, or a limit of number, bytes or time is met.

        `into` is a new file with one JSON document a line, in the order of arrival; empty messages, which clear retained ones, make no
        row. `ingested_before` says that messages of this very step were committed earlier: in a session that the broker has kept
        since then topics are not asked for once more, because a broker answers that with their retained messages; only those of
        QoS 0 are, of which it keeps nothing else. A message that is no JSON ends the batch before it; as the first one it raises
        InvalidData. Leaving the context without `acknowledge` leaves the messages with the broker. Raises AccessDenied (the place, the
        credentials or a topic is refused), InvalidManifest (a topic that no broker takes), LimitExceeded (one message is larger than a
        batch), Determinate.
        """
