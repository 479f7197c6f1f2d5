"""A real server around a node in memory, in a test thread, on a free port."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx
from fastapi import FastAPI

from odfabric.settings import Settings
from odfabric.wiring import Node
from odfabric_api.app import create_app
from odfabric_api.server import ApiServer, listening_socket, url_of
from tests.support.waiting import wait_until

TOKEN = "odf_0123456789abcdef"
ANSWER_S_MAX = 20.0


@dataclass(frozen=True, slots=True)
class Served:
    """A running server."""

    url: str
    app: FastAPI
    server: ApiServer

    def client(self, token: str | None = TOKEN) -> httpx.Client:
        """A client that follows nothing and reads no environment.

        To be closed by the caller.
        """
        headers = {"authorization": f"Bearer {token}"} if token else {}
        # There is no TLS: to read the usual authorities takes as long as many a test.
        return httpx.Client(base_url=self.url, headers=headers, timeout=ANSWER_S_MAX, trust_env=False, verify=False)

    def connect(self) -> socket.socket:
        """A raw connection; to be closed by the caller."""
        address = urlsplit(self.url)
        assert address.hostname is not None
        assert address.port is not None
        return socket.create_connection((address.hostname, address.port), timeout=ANSWER_S_MAX)


@contextmanager
def serving(node: Node) -> Iterator[Served]:
    """Serve `node` with the limits of its settings."""
    with serving_app(create_app(node, token=TOKEN), node.settings) as served:
        yield served


@contextmanager
def serving_app(app: FastAPI, settings: Settings) -> Iterator[Served]:
    """Serve any application under the limits of connections."""
    with listening_socket("127.0.0.1", 0) as listening:
        server = ApiServer(app, settings)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="api")
        thread.start()
        try:
            wait_until(lambda: server.started, what="the server")
            yield Served(url_of(listening), app, server)
        finally:
            server.should_exit = True
            thread.join(ANSWER_S_MAX)
            assert not thread.is_alive(), "the server did not end"


@contextmanager
def working(node: Node) -> Iterator[None]:
    """Do the jobs of `node` in a thread, as a worker would."""
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            run = node.jobs.lease("worker")
            if run is None:
                stop.wait(0.002)
            else:
                node.jobs.run(run)

    thread = threading.Thread(target=work, name="worker")
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(ANSWER_S_MAX)
        assert not thread.is_alive(), "the worker did not end"
