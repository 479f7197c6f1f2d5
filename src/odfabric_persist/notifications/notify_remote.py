"""Announcements between processes, over a server that may go and come back.

Owns two threads: one sends what this process announces, one receives what others do; each has a connection of its own and opens a
new one after a failure. Invariant: nobody waits for the server - what cannot be sent is dropped, and while nothing can be
received `tells` is false and all who wait look by themselves. Not here: any server (`notify_postgres`, `notify_redis`).
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Protocol

from odfabric_persist.errors import LocationError
from odfabric_persist.notifications.notify import Announcements, Subscription

PENDING_MAX = 10_000
"""Shards with an announcement that is not sent yet; beyond that announcements are dropped."""

RECEIVE_S = 0.25
"""A wait for messages; `close` takes as long, or as long as an attempt to reach the server."""

_PAUSE_S, _PAUSE_S_MAX = 0.1, 5.0


class Sender(Protocol):
    """A connection that sends. Its methods raise LocationError."""

    def send(self, message: str) -> None:
        """Send it to all who receive."""

    def close(self) -> None:
        """Close the connection."""


class Receiver(Protocol):
    """A connection that receives what is sent from now on.

    Its methods raise LocationError.
    """

    def receive(self, timeout_s: float) -> Sequence[str]:
        """What has come, empty if nothing did in this time."""

    def close(self) -> None:
        """Close the connection."""


class RemoteNotifier:
    """`Notifier` over connections that `open_sender` and `open_receiver` make.

    Both may raise LocationError.
    """

    def __init__(self, open_sender: Callable[[], Sender], open_receiver: Callable[[], Receiver]) -> None:
        """Does not wait for the server."""
        self._announcements = Announcements()
        self._tells = False
        self._pending: dict[str, int] = {}
        self._changed = threading.Condition()
        self._closed = threading.Event()
        self._threads = [
            threading.Thread(target=self._keep_sending, args=(open_sender,), name="persist-send", daemon=True),
            threading.Thread(target=self._keep_receiving, args=(open_receiver,), name="persist-receive", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    @property
    def tells(self) -> bool:
        """See the protocol."""
        return self._tells

    def publish(self, shard: str, seqno: int) -> None:
        """See the protocol. Who waits in this process is informed at once."""
        self._announcements.announce(shard, seqno)
        self._to_send({shard: seqno})

    def subscribe(self, shard: str, woken: Callable[[], None] | None = None) -> Subscription:
        """See the protocol."""
        return self._announcements.subscribe(shard, woken)

    def close(self) -> None:
        """See the protocol."""
        self._closed.set()
        with self._changed:
            self._changed.notify()
        for thread in self._threads:
            thread.join()

    def _keep_sending(self, open_sender: Callable[[], Sender]) -> None:
        def work() -> None:
            with closing(open_sender()) as sender:
                while (pending := self._taken()) is not None:
                    try:
                        for shard, seqno in pending.items():
                            sender.send(json.dumps([shard, seqno]))
                    except LocationError:
                        self._to_send(pending)
                        raise

        self._again_and_again(work)

    def _taken(self) -> dict[str, int] | None:
        """What is to be sent, as soon as there is something; None when it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._pending or self._closed.is_set())
            pending, self._pending = self._pending, {}
        return None if self._closed.is_set() else pending

    def _to_send(self, announced: Mapping[str, int]) -> None:
        """To be sent: of each shard only the newest version."""
        with self._changed:
            for shard, seqno in announced.items():
                if shard in self._pending or len(self._pending) < PENDING_MAX:
                    self._pending[shard] = max(seqno, self._pending.get(shard, seqno))
            self._changed.notify()

    def _keep_receiving(self, open_receiver: Callable[[], Receiver]) -> None:
        def work() -> None:
            with closing(open_receiver()) as receiver:
                self._tell(True)
                try:
                    while not self._closed.is_set():
                        for message in receiver.receive(RECEIVE_S):
                            self._heard(message)
                finally:
                    self._tell(False)

        self._again_and_again(work)

    def _tell(self, tells: bool) -> None:
        """Announcements begin or stop: either way some may have been missed."""
        self._tells = tells
        self._announcements.wake_all()

    def _heard(self, message: str) -> None:
        try:
            shard, seqno = json.loads(message)
        except (ValueError, TypeError):
            return  # not ours: anybody may send on this channel
        if isinstance(shard, str) and isinstance(seqno, int):
            self._announcements.announce(shard, seqno)

    def _again_and_again(self, work: Callable[[], None]) -> None:
        """Repeat until it is over, with growing pauses while failures follow."""
        failures = 0
        while not self._closed.is_set():
            start = time.monotonic()
            try:
                work()
            except LocationError:
                failures = 0 if time.monotonic() - start > _PAUSE_S_MAX else failures + 1
                self._closed.wait(min(_PAUSE_S * 2**failures, _PAUSE_S_MAX))
