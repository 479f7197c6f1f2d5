"""Looks at a Redis."""

from __future__ import annotations

import redis

from odfabric.errors import Determinate
from odfabric.model.node.surroundings import RedisState


class RedisServerProbe:
    """A RedisProbe."""

    def __init__(self, url: str, *, wait_s_max: float) -> None:
        self._url = url
        self._wait_s_max = wait_s_max

    def look(self) -> RedisState:
        """See the port."""
        wait_s = self._wait_s_max
        client = redis.Redis.from_url(self._url, socket_timeout=wait_s, socket_connect_timeout=wait_s)
        try:
            client.ping()
            told = client.info()
        except redis.RedisError as error:
            # The error's own text may name host and user.
            raise Determinate(f"it does not answer: {type(error).__name__}") from error
        finally:
            client.close()
        version = told.get("valkey_version") or told.get("redis_version") or "unknown"
        return RedisState(version=str(version), eviction=str(told.get("maxmemory_policy", "")))
