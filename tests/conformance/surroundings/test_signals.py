"""Signals: memory and Redis keep one contract, and Redis may be lost."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.signals import FolderSignals
from odfabric.adapters.memory.subscriptions.signals import MemorySignals
from odfabric.adapters.redis.signals import RedisSignals
from odfabric.ports.subscriptions.signals import Signals, Topic
from odfabric.testing.conformance.subscriptions.signals import PATIENCE_S, SignalsContract
from tests.support.servers.valkey import RedisServer, redis_server
from tests.support.waiting import wait_until


def open_end(url: str, name: str) -> RedisSignals:
    return RedisSignals(url, local=MemorySignals(), name=name)


class TestMemorySignals(SignalsContract):
    @pytest.fixture
    def open_signals(self) -> Callable[[], Signals]:
        return MemorySignals


class TestFolderSignals(SignalsContract):
    reach_others = True

    @pytest.fixture(params=["short", "long" * 40])
    def folder(self, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
        return tmp_path / request.param

    @pytest.fixture
    def open_signals(self, folder: Path) -> Iterator[Callable[[], Signals]]:
        opened: list[FolderSignals] = []

        def open_one() -> Signals:
            opened.append(FolderSignals(folder, local=MemorySignals()))
            for topic in Topic:
                assert opened[-1].wait(topic, timeout_s=PATIENCE_S), "it never listened"
            return opened[-1]

        yield open_one
        for signals in opened:
            signals.close()

    def test_what_closed_ends_leave_behind_is_removed(self, folder: Path, open_signals: Callable[[], Signals]) -> None:
        here = open_signals()
        assert isinstance(here, FolderSignals)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
            killed.bind(str(here.folder / "1-killed.signal"))
        assert len(list(here.folder.iterdir())) == 2
        here.send(Topic.JOBS)
        assert len(list(here.folder.iterdir())) == 1

    def test_a_receiver_that_does_not_listen_blocks_nobody(self, open_signals: Callable[[], Signals]) -> None:
        here, there = open_signals(), open_signals()
        for _ in range(10_000):
            here.send(Topic.JOBS)
        assert there.wait(Topic.JOBS, timeout_s=PATIENCE_S)

    def test_without_its_folder_signals_stay_in_the_process(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        signals = FolderSignals(tmp_path / "file" / "folder", local=MemorySignals())
        assert signals.wait(Topic.JOBS, timeout_s=0.0)
        signals.send(Topic.JOBS)
        assert signals.wait(Topic.JOBS, timeout_s=0.0)
        signals.close()


class TestRedisSignals(SignalsContract):
    reach_others = True

    @pytest.fixture
    def open_signals(self, redis_of_tests: RedisServer) -> Iterator[Callable[[], Signals]]:
        opened: list[RedisSignals] = []
        name = uuid.uuid4().hex

        def open_one() -> Signals:
            opened.append(open_end(redis_of_tests.url, name))
            opened[-1].listen()
            for topic in Topic:
                assert opened[-1].wait(topic, timeout_s=PATIENCE_S), "it never listened"
            return opened[-1]

        yield open_one
        for signals in opened:
            signals.close()

    def test_nodes_that_share_a_server_do_not_hear_each_other(self, redis_of_tests: RedisServer) -> None:
        ours, others = (open_end(redis_of_tests.url, uuid.uuid4().hex) for _ in range(2))
        ours.listen()
        assert ours.wait(Topic.JOBS, timeout_s=PATIENCE_S), "it never listened"
        others.send(Topic.JOBS)
        assert not ours.wait(Topic.JOBS, timeout_s=0.1)
        ours.close()
        others.close()


def test_a_server_that_is_lost_delays_nobody_and_is_found_again() -> None:
    with redis_server() as server:
        if server.process is None:
            return  # somebody's own server is not killed
        here, there = (open_end(server.url, "node") for _ in range(2))
        there.listen()
        assert there.wait(Topic.JOBS, timeout_s=PATIENCE_S)
        server.process.kill()
        begun = time.monotonic()
        for _ in range(100):
            here.send(Topic.JOBS)
        assert time.monotonic() - begun < PATIENCE_S
        server.process.start()

        def heard() -> bool:
            here.send(Topic.JOBS)
            return there.wait(Topic.JOBS, timeout_s=0.05)

        wait_until(heard, what="signals after the server came back")
        here.close()
        there.close()
