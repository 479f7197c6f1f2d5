"""Signals between processes of a node: "there is work", never what work.

A signal may be lost, doubled or late: anyone who waits looks by itself after a while, so losing signals costs time and nothing else.
"""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Topic(Enum):
    """What there may be to do."""

    JOBS = "jobs"
    OUTBOX = "outbox"
    DELIVERIES = "deliveries"
    FLOWS = "flows"
    HEADS = "heads"


class Signals(Protocol):
    """Raises nothing: what cannot be reported is not reported."""

    def send(self, topic: Topic) -> None:
        """Tell everybody who waits for the topic, in all processes of the node."""

    def wait(self, topic: Topic, *, timeout_s: float) -> bool:
        """Until a signal of the topic comes, or `timeout_s` have passed; whether one came.

        One that came since the same thread waited last counts at once.
        """
