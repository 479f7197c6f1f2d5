"""Signals between processes by publish and subscribe.

Owns one channel per topic, and one thread that listens. Invariant: a server that is slow or away delays nobody: sending waits at most
`wait_s_max`, and then not again until a pause has passed; the listener connects again by itself. Not here: any work.
"""

from __future__ import annotations

import logging
import threading
import time
import uuid

import redis

from odfabric.ports.subscriptions.signals import Signals, Topic

_log = logging.getLogger(__name__)

CHANNEL_PREFIX = "odf.signals."
PAUSE_S = 1.0
"""Between attempts to reach a server that is away."""
_LISTEN_S = 0.2


class RedisSignals:
    """A Signals, which are handed on within the process by `local`.

    `close` ends the listener.
    """

    def __init__(self, url: str, *, local: Signals, name: str, wait_s_max: float = 2.0) -> None:
        """`name` distinguishes nodes that share a server."""
        self._client = redis.Redis.from_url(
            url, socket_timeout=wait_s_max, socket_connect_timeout=wait_s_max, health_check_interval=30
        )
        self._channels = {f"{CHANNEL_PREFIX}{name}.{topic.value}": topic for topic in Topic}
        self._names = {topic: channel for channel, topic in self._channels.items()}
        self._local = local
        self._own = uuid.uuid4().bytes
        self._silent_until = 0.0
        self._closed = threading.Event()
        self._listener = threading.Thread(target=self._listen_always, name="signals", daemon=True)
        self._listening = False

    def listen(self) -> None:
        """Hear signals of other processes from now on."""
        self._listening = True
        self._listener.start()

    def close(self) -> None:
        """End the listener and close connections."""
        self._closed.set()
        if self._listening:
            self._listener.join()
        self._client.close()

    def send(self, topic: Topic) -> None:
        """See the port."""
        self._local.send(topic)
        if time.monotonic() < self._silent_until:
            return
        try:
            self._client.publish(self._names[topic], self._own)
        except redis.RedisError as error:
            self._silent_until = time.monotonic() + PAUSE_S
            _log.warning("signals are lost: %s", type(error).__name__)

    def wait(self, topic: Topic, *, timeout_s: float) -> bool:
        """See the port."""
        return self._local.wait(topic, timeout_s=timeout_s)

    def _listen_always(self) -> None:
        while not self._closed.is_set():
            try:
                self._listen()
            except redis.RedisError as error:
                _log.warning("no signals are heard: %s", type(error).__name__)
                self._closed.wait(PAUSE_S)

    def _listen(self) -> None:
        with self._client.pubsub(ignore_subscribe_messages=True) as subscription:  # type: ignore[no-untyped-call]
            subscription.subscribe(*self._channels)
            # What was sent before we listened was not heard: everybody looks once.
            for topic in Topic:
                self._local.send(topic)
            while not self._closed.is_set():
                message = subscription.get_message(timeout=_LISTEN_S)
                if message is not None and message["data"] != self._own:
                    self._local.send(self._channels[message["channel"].decode()])
