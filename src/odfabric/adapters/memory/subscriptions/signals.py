"""Signals within one process."""

from __future__ import annotations

import threading

from odfabric.ports.subscriptions.signals import Topic


class MemorySignals:
    """A Signals. Each thread hears every signal that was sent since it waited last."""

    def __init__(self) -> None:
        self._sent = dict.fromkeys(Topic, 0)
        self._changed = threading.Condition()
        self._heard = threading.local()

    def send(self, topic: Topic) -> None:
        """See the port."""
        with self._changed:
            self._sent[topic] += 1
            self._changed.notify_all()

    def wait(self, topic: Topic, *, timeout_s: float) -> bool:
        """See the port."""
        with self._changed:
            heard = self._heard.__dict__.setdefault(topic.value, 0)
            came: bool = self._changed.wait_for(lambda: self._sent[topic] > heard, timeout_s)
            self._heard.__dict__[topic.value] = self._sent[topic]
            return came
