"""Rate limits: one process and Redis keep one contract, and Redis may be lost."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterator

import pytest
import redis

from odfabric.adapters.memory.people.rate_limits import MemoryRateLimits
from odfabric.adapters.redis.rate_limits import KEY_PREFIX, RedisRateLimits
from odfabric.ports.people.rate_limits import RateLimits
from odfabric.testing.conformance.people.rate_limits import (
    LONG_S,
    PATIENCE_S,
    RateLimitsContract,
    SharedRateLimitsContract,
)
from tests.support.servers.valkey import RedisServer, redis_server
from tests.support.waiting import wait_until

SECRET = b"a secret of the node"


def open_end(url: str, name: str, *, secret: bytes = SECRET) -> RedisRateLimits:
    return RedisRateLimits(url, name=name, secret=secret, local=MemoryRateLimits(keys_max=1000))


def taken(limits: RateLimits, key: str, *, limit: int = 1) -> bool:
    return limits.take(key, limit=limit, window_s=LONG_S) is None


class TestMemoryRateLimits(RateLimitsContract):
    @pytest.fixture
    def open_limits(self) -> Callable[[], RateLimits]:
        return lambda: MemoryRateLimits(keys_max=1000)


class TestRedisRateLimits(SharedRateLimitsContract):
    @pytest.fixture
    def name(self) -> str:
        return uuid.uuid4().hex

    @pytest.fixture
    def open_limits(self, redis_of_tests: RedisServer, name: str) -> Iterator[Callable[[], RateLimits]]:
        opened: list[RedisRateLimits] = []

        def open_one() -> RateLimits:
            opened.append(open_end(redis_of_tests.url, name))
            return opened[-1]

        yield open_one
        for limits in opened:
            limits.close()

    def test_nodes_that_share_a_server_count_alone(self, redis_of_tests: RedisServer) -> None:
        ours, others = (open_end(redis_of_tests.url, uuid.uuid4().hex) for _ in range(2))
        assert taken(ours, "key")
        assert taken(others, "key")
        ours.close()
        others.close()

    def test_no_name_or_address_lies_in_redis(self, redis_of_tests: RedisServer, name: str) -> None:
        """Nor a hash that somebody could make who does not know the node's secret."""
        ends = [open_end(redis_of_tests.url, name, secret=secret) for secret in (SECRET, b"of another node")]
        for end in ends:
            assert taken(end, "sign-in:address:192.0.2.1")
            assert not taken(end, "sign-in:address:192.0.2.1")
            end.close()
        client = redis.Redis.from_url(redis_of_tests.url)
        keys = list(client.scan_iter(f"{KEY_PREFIX}.{name}:*"))
        stored = b"".join(key + b"".join(client.lrange(key, 0, -1)) for key in keys)
        lives = [client.ttl(key) for key in keys]
        client.close()
        assert b"192.0.2.1" not in stored
        assert b"sign-in" not in stored
        assert len(keys) == 2
        assert all(0 < life <= LONG_S for life in lives)


def test_a_server_that_is_lost_opens_nothing_delays_nobody_and_is_found_again() -> None:
    with redis_server() as server:
        if server.process is None:
            return  # somebody's own server is not killed
        here, there = (open_end(server.url, "node") for _ in range(2))
        assert taken(here, "a")
        server.process.kill()
        begun = time.monotonic()
        assert [taken(here, "b", limit=3) for _ in range(100)].count(True) == 3
        here.reset("b")
        assert taken(here, "b", limit=3)
        assert time.monotonic() - begun < PATIENCE_S
        server.process.start()

        def counted_together() -> bool:
            key = uuid.uuid4().hex
            return taken(here, key) and not taken(there, key)

        wait_until(counted_together, what="counting together after the server came back")
        here.close()
        there.close()


def test_a_server_that_does_not_answer_delays_nobody() -> None:
    """Each process counts by itself for a while before it asks again."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        limits = open_end(f"redis://127.0.0.1:{silent.getsockname()[1]}/0", "node")
        begun = time.monotonic()
        assert [taken(limits, "key", limit=3) for _ in range(100)].count(True) == 3
        assert time.monotonic() - begun < PATIENCE_S
        limits.close()


def test_a_node_begins_without_its_server() -> None:
    limits = open_end("redis://127.0.0.1:1/0", "node")
    assert taken(limits, "key")
    assert not taken(limits, "key")
    limits.close()
