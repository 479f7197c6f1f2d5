"""Announcements over a channel of Redis or Valkey.

Owns the channel and two connections of its own. Nothing is stored there: what is sent while nobody listens is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from odfabric_persist.errors import Determinate, UsageError
from odfabric_persist.notifications.notify_remote import RemoteNotifier

CHANNEL = "odf_persist_v1"
ANSWER_S_MAX = 5.0
"""Longest wait for a connection or an answer."""

CHECK_S = 10
"""How often a quiet connection is asked whether it is still there."""


def redis_notifier(url: str) -> RemoteNotifier:
    """A `Notifier` over the server at `url` (`redis://`, `rediss://`, `unix://`).

    Raises UsageError (`invalid-url`).
    """
    try:
        _client(url).close()
    except ValueError:
        raise UsageError("invalid-url", "this is no address of a Redis server") from None
    return RemoteNotifier(lambda: _RedisSender(_client(url)), lambda: _RedisReceiver(_client(url)))


def _client(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_connect_timeout=ANSWER_S_MAX,
        socket_timeout=ANSWER_S_MAX,
        health_check_interval=CHECK_S,
        # Who lost a connection must know it: something may have been missed.
        retry=Retry(NoBackoff(), 0),
    )


class _RedisSender:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client

    def send(self, message: str) -> None:
        """See the protocol."""
        with _located():
            self._client.publish(CHANNEL, message)

    def close(self) -> None:
        """See the protocol."""
        self._client.close()


class _RedisReceiver:
    def __init__(self, client: redis.Redis) -> None:
        self._client = client
        self._channel = client.pubsub(ignore_subscribe_messages=True)  # type: ignore[no-untyped-call]
        try:
            with _located():
                self._channel.subscribe(CHANNEL)
                # The answer to the subscription: what is sent after it will come in.
                self._channel.get_message(timeout=ANSWER_S_MAX)
        except BaseException:
            self.close()
            raise

    def receive(self, timeout_s: float) -> Sequence[str]:
        """See the protocol."""
        with _located():
            message = self._channel.get_message(timeout=timeout_s)
        data = None if message is None else message.get("data")
        return [data.decode("utf-8", "replace")] if isinstance(data, bytes) else []

    def close(self) -> None:
        """See the protocol."""
        self._channel.close()
        self._client.close()


@contextmanager
def _located() -> Iterator[None]:
    """Errors of the server and of the way to it as ours."""
    try:
        yield
    except (redis.RedisError, OSError) as error:
        raise Determinate(f"Redis: {type(error).__name__}") from error
