"""Rate limits that all processes of a node share, in Redis.

Owns keys and what happens while the server is away. Invariants: Redis sees keys only as HMAC-SHA-256 under a secret of the node, because
a plain hash of an address is found by trying all addresses; entries go with their window; a server that is slow or away costs two waits
of `wait_s_max` and then nothing until a pause has passed, in which each process counts by itself. Counting is a script of `limits` that
Redis runs as one step; times are those of the processes, whose clocks should agree to a second.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import time

import redis
from limits.storage import RedisStorage
from redis.backoff import NoBackoff
from redis.retry import Retry

from odfabric.ports.people.rate_limits import RateLimits

_log = logging.getLogger(__name__)

KEY_PREFIX = "odf.limits"
PAUSE_S = 1.0
"""Between attempts to reach a server that is away."""
_WAIT_S_MIN = 0.001


class RedisRateLimits:
    """A RateLimits. Safe for use by many threads; `close` closes connections."""

    def __init__(self, url: str, *, name: str, secret: bytes, local: RateLimits, wait_s_max: float = 0.5) -> None:
        """`name` distinguishes nodes that share a server.

        `secret` is the same in all processes of one; `local` counts meanwhile.
        """
        self._pool = redis.ConnectionPool.from_url(
            url, socket_timeout=wait_s_max, socket_connect_timeout=wait_s_max, retry=Retry(NoBackoff(), 1)
        )
        self._storage = RedisStorage(url, connection_pool=self._pool, key_prefix=f"{KEY_PREFIX}.{name}")
        self._secret = secret
        self._local = local
        self._away_until = 0.0

    def close(self) -> None:
        """Close connections."""
        self._pool.disconnect()

    def take(self, key: str, *, limit: int, window_s: int) -> float | None:
        """See the port."""
        if time.monotonic() >= self._away_until:
            try:
                return self._take(self._hidden(key), limit, window_s)
            except redis.RedisError as error:
                self._lost(error)
        return self._local.take(key, limit=limit, window_s=window_s)

    def reset(self, key: str) -> None:
        """See the port."""
        self._local.reset(key)
        if time.monotonic() >= self._away_until:
            try:
                self._storage.clear(self._hidden(key))
            except redis.RedisError as error:
                self._lost(error)

    def _take(self, key: str, limit: int, window_s: int) -> float | None:
        if self._storage.acquire_entry(key, limit, window_s):
            return None
        oldest, _ = self._storage.get_moving_window(key, limit, window_s)
        return min(max(oldest + window_s - time.time(), _WAIT_S_MIN), float(window_s))

    def _hidden(self, key: str) -> str:
        return hmac.digest(self._secret, key.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()

    def _lost(self, error: redis.RedisError) -> None:
        self._away_until = time.monotonic() + PAUSE_S
        _log.warning("rate limits are counted by each process: %s", type(error).__name__)
