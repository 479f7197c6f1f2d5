"""Notifies waiters of a shard's new version, instead of polling.

Owns the protocol of notifiers, what one process knows of announcements, and how long to wait before looking untold. Invariant:
an announcement only ends a wait; who was woken looks for itself. So announcements may be late, doubled, out of order or lost, and
all that suffers is the time until somebody looks. Not here: how announcements reach other processes (`notify_remote`).
Source: ADR 0017; ADR 0016.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol


@dataclass(frozen=True, slots=True, kw_only=True)
class Pauses:
    """Seconds before a look without notice.

    `poll_s` without a notifier, else from `fallback_s` on, doubled each time.
    """

    poll_s: float = 0.1
    fallback_s: float = 1.0
    fallback_s_max: float = 16.0


class Notifier(Protocol):
    """Carries announcements.

    Safe for threads; no method raises or waits for anything outside.
    """

    @property
    def tells(self) -> bool:
        """Whether announcements are expected to come in now.

        When that ends, all who wait are woken.
        """

    def publish(self, shard: str, seqno: int) -> None:
        """Announce that the shard has come to this version."""

    def subscribe(self, shard: str, woken: Callable[[], None] | None = None) -> Subscription:
        """What is announced of a shard from now on.

        `woken` is called with each announcement, on any thread.
        """

    def close(self) -> None:
        """Tell and send no more."""


class Announcements:
    """The subscriptions of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subscriptions: dict[str, set[Subscription]] = {}

    def subscribe(self, shard: str, woken: Callable[[], None] | None = None) -> Subscription:
        """See the protocol of notifiers."""
        made = Subscription(self, shard, woken)
        with self._lock:
            self._subscriptions.setdefault(shard, set()).add(made)
        return made

    def announce(self, shard: str, seqno: int) -> None:
        """Wake who waits for this version of the shard."""
        with self._lock:
            told = list(self._subscriptions.get(shard, ()))
        for one in told:
            one.tell(seqno)

    def wake_all(self) -> None:
        """Something may have been missed: everybody had better look."""
        with self._lock:
            told = [one for waiting in self._subscriptions.values() for one in waiting]
        for one in told:
            one.tell(None)

    def forget(self, subscription: Subscription) -> None:
        """The subscription has ended."""
        with self._lock:
            waiting = self._subscriptions.get(subscription.shard, set())
            waiting.discard(subscription)
            if not waiting:
                self._subscriptions.pop(subscription.shard, None)


class Subscription:
    """What was announced of one shard; a context that ends it.

    One thread waits at a time.
    """

    def __init__(self, announcements: Announcements, shard: str, woken: Callable[[], None] | None) -> None:
        self.shard = shard
        self._announcements = announcements
        self._woken = woken
        self._changed = threading.Condition()
        self._seqno: int | None = None
        self._missed = False

    def __enter__(self) -> Subscription:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Hear no more."""
        self._announcements.forget(self)

    def tell(self, seqno: int | None) -> None:
        """Hear of a version; None: of something that may have been missed."""
        with self._changed:
            if seqno is None:
                self._missed = True
            elif self._seqno is None or seqno > self._seqno:
                self._seqno = seqno
            self._changed.notify_all()
        if self._woken is not None:
            self._woken()

    def wait(self, beyond: int, timeout_s: float) -> bool:
        """Until a version after `beyond` is announced, at most this long; whether it was.

        Anyone who is informed looks then.
        """
        with self._changed:
            told = self._changed.wait_for(lambda: self.heard(beyond), timeout_s)
            # Taken, so that an announcement of what never came does not end every wait from now on.
            self._seqno, self._missed = None, False
            return told

    def heard(self, beyond: int) -> bool:
        """Whether a wait for more than `beyond` would end at once."""
        return self._missed or (self._seqno is not None and self._seqno > beyond)


class LocalNotifier:
    """Within one process. Enough where no other process writes."""

    def __init__(self) -> None:
        self._announcements = Announcements()

    @property
    def tells(self) -> bool:
        """See the protocol."""
        return True

    def publish(self, shard: str, seqno: int) -> None:
        """See the protocol."""
        self._announcements.announce(shard, seqno)

    def subscribe(self, shard: str, woken: Callable[[], None] | None = None) -> Subscription:
        """See the protocol."""
        return self._announcements.subscribe(shard, woken)

    def close(self) -> None:
        """See the protocol."""


class NoNotifier(LocalNotifier):
    """No notices of other processes: waiters poll every `poll_s`.

    They are still notified by their own process.
    """

    @property
    def tells(self) -> bool:
        """See the protocol."""
        return False


class Watch:
    """The waits of one who looks at a shard again and again.

    A context that ends its subscription.
    """

    def __init__(self, notifier: Notifier, shard: str, pauses: Pauses, woken: Callable[[], None] | None = None) -> None:
        """Make it before the first look: what is announced from then on is heard."""
        self._notifier = notifier
        self._pauses = pauses
        self._pause_s = pauses.fallback_s
        self.subscription = notifier.subscribe(shard, woken)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.subscription.close()

    @property
    def pause_s(self) -> float:
        """How long to wait before the next look if nobody signals."""
        return self._pause_s if self._notifier.tells else self._pauses.poll_s

    def looked(self, *, told: bool) -> None:
        """Another look is due: each without notice makes the next pause longer."""
        grown = min(self._pause_s * 2, self._pauses.fallback_s_max)
        self._pause_s = self._pauses.fallback_s if told else grown

    def wait(self, beyond: int, end: float) -> None:
        """Wait for a version after `beyond`, at most until `end` (monotonic clock)."""
        limit_s = max(0.0, end - time.monotonic())
        self.looked(told=self.subscription.wait(beyond, min(self.pause_s, limit_s)))
