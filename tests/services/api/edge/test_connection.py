"""Connections under hostile peers: raw sockets, small limits, a real server."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from socket import IPPROTO_TCP, SHUT_WR, TCP_NODELAY, socket

import pytest
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring import Node
from tests.services.api.raw import RawAnswer, ends, exchanged, head, read_answer
from tests.services.api.serving import Served, serving, serving_app, working
from tests.support.waiting import wait_until
from tests.usecases.manifests import ROOT

ROWS = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'
INFO = head("GET", "/info")
INGEST = "/local/readings/ingest"


@dataclass(frozen=True, slots=True)
class Place:
    """A server whose waiting is short, and the node behind it."""

    served: Served
    memory: MemoryNode


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder: Path = tmp_path_factory.mktemp("node")
    memory = MemoryNode(folder)
    settings = Settings(
        workspace=folder,
        header_wait_s_max=0.4,
        keep_alive_s_max=1,
        body_start_s=0.4,
        linger_s_max=0.3,
        connections_at_once_max=8,
    )
    node = Node(memory.node.ports, settings)
    memory.add(ROOT)
    with serving(node) as served, working(node):
        yield Place(served, memory)


@pytest.fixture
def connect(place: Place) -> Iterator[Callable[[], socket]]:
    """Opens connections that are closed after the test; the next test finds none open."""
    with ExitStack() as closing:
        yield lambda: closing.enter_context(place.served.connect())
    wait_until(lambda: not place.served.server.server_state.connections, what="the end of all connections")


def problem(answer: RawAnswer, status: int) -> dict[str, object]:
    assert answer.status == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["connection"] == "close"
    assert answer.headers["x-content-type-options"] == "nosniff"
    return answer.json()


def pushed_rows(place: Place) -> int:
    with place.served.client() as client:
        return len(client.get("/local/readings/tail").json()["data"])


@pytest.mark.parametrize(
    "request_bytes",
    [
        head("POST", "/query", "Content-Length: 5", "Transfer-Encoding: chunked") + b"0\r\n\r\n",
        head("POST", "/query", "Content-Length: 5", "Content-Length: 6") + b"abcde",
        head("GET", "/info", "X: a", " b"),
        b"GET /info HTTP/1.1\nHost: node\n\n",
        b"GET /info HTTP/1.1\r\nHost: node\nX: y\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    ],
    ids=["length-and-coding", "two-lengths", "folded", "bare-lf", "one-bare-lf", "tls", "http2"],
)
def test_ambiguous_framing_is_refused_and_the_connection_closed(
    connect: Callable[[], socket], request_bytes: bytes
) -> None:
    connection = connect()
    problem(exchanged(connection, request_bytes), 400)
    assert ends(connection)


def test_a_request_behind_a_refused_one_is_not_read(place: Place, connect: Callable[[], socket]) -> None:
    before = pushed_rows(place)
    smuggled = head("POST", INGEST, f"Content-Length: {len(ROWS)}") + ROWS
    carrier = head("POST", "/query", "Content-Length: 4", "Transfer-Encoding: chunked") + b"0\r\n\r\n" + smuggled
    connection = connect()
    problem(exchanged(connection, carrier), 400)
    assert ends(connection)
    assert pushed_rows(place) == before


def test_a_request_before_its_turn_is_not_answered(place: Place, connect: Callable[[], socket]) -> None:
    """Pipelining is allowed to end like this, and anyone who smuggles gets no further."""
    before = pushed_rows(place)
    connection = connect()
    second = head("POST", INGEST, f"Content-Length: {len(ROWS)}") + ROWS
    assert exchanged(connection, INFO + second).status == 200
    assert connection.recv(1) == b""  # no second answer of any kind
    assert pushed_rows(place) == before


def test_a_connection_serves_one_request_after_another(connect: Callable[[], socket]) -> None:
    connection = connect()
    for _ in range(3):
        answer = exchanged(connection, INFO)
        assert (answer.status, answer.headers.get("connection")) == (200, None)


def test_answers_are_sent_at_once(place: Place, connect: Callable[[], socket]) -> None:
    """Head and body are two small packets.

    The second must not wait until the first is acknowledged.
    """
    assert exchanged(connect(), INFO).status == 200
    (connection,) = place.served.server.server_state.connections
    accepted = connection.transport.get_extra_info("socket")
    assert accepted.getsockopt(IPPROTO_TCP, TCP_NODELAY) != 0


@pytest.mark.parametrize(
    "body",
    [
        b"zz\r\nabc\r\n0\r\n\r\n",
        b"3\r\nabcd\r\n0\r\n\r\n",
        b"3\nabc\r\n0\r\n\r\n",
        b"0\r\nX-Trailer: a\r\n\r\n",
        b"f" * 9000,
    ],
    ids=["no-size", "wrong-size", "bare-lf", "trailer", "endless-size"],
)
def test_bad_chunks_are_refused(place: Place, connect: Callable[[], socket], body: bytes) -> None:
    connection = connect()
    problem(exchanged(connection, head("POST", INGEST, "Transfer-Encoding: chunked") + body), 400)
    assert ends(connection)
    assert list(place.memory.objects.keys("staging/")) == []


@pytest.fixture(scope="module")
def lingering(place: Place) -> Iterator[Served]:
    """The same node on a server that drops a refused client's bytes through any test."""
    node: Node = place.served.app.state.node
    settings = node.settings.model_copy(update={"linger_s_max": 60.0})
    with serving(Node(node.ports, settings)) as served:
        yield served


def test_after_bad_chunks_the_route_is_over_and_adds_nothing(
    lingering: Served, caplog: pytest.LogCaptureFixture
) -> None:
    with lingering.connect() as connection:
        problem(exchanged(connection, head("POST", INGEST, "Transfer-Encoding: chunked") + b"zz\r\n"), 400)
        wait_until(lambda: not lingering.server.server_state.tasks, what="the end of the request")
        assert connection.recv(1) == b""
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def test_a_refusal_is_not_lost_in_a_reset(lingering: Served) -> None:
    """A client refused while it sends its head reads the answer, and a clean end."""
    with lingering.connect() as connection:
        problem(exchanged(connection, b"GET /info HTTP/9.9\r\n\r\n"), 400)
        connection.sendall(bytes(200_000))
        connection.shutdown(SHUT_WR)
        assert connection.recv(1) == b""


def test_a_head_that_trickles_in_is_given_up(connect: Callable[[], socket]) -> None:
    connection = connect()
    connection.sendall(INFO[:-2])
    started = time.monotonic()
    problem(read_answer(connection), 408)
    assert 0.2 < time.monotonic() - started < 5
    assert ends(connection)


def test_a_head_in_two_packets_within_its_time_is_answered(connect: Callable[[], socket]) -> None:
    connection = connect()
    connection.sendall(INFO[:20])
    assert exchanged(connection, INFO[20:]).status == 200


def test_the_second_head_of_a_connection_has_a_deadline_too(connect: Callable[[], socket]) -> None:
    connection = connect()
    assert exchanged(connection, INFO).status == 200
    connection.sendall(b"GET ")
    assert problem(read_answer(connection), 408)["limit"] == "header_wait_s_max"


def test_a_connection_on_which_nothing_comes_ends(connect: Callable[[], socket]) -> None:
    silent, idle = connect(), connect()
    assert exchanged(idle, INFO).status == 200
    problem(read_answer(silent), 408)
    assert ends(silent)
    assert ends(idle)


def test_one_connection_too_many_is_told_so(place: Place, connect: Callable[[], socket]) -> None:
    open_ones = [connect() for _ in range(8)]
    for connection in open_ones:
        assert exchanged(connection, INFO).status == 200
    extra = connect()
    answer = read_answer(extra)
    told = problem(answer, 429)
    assert (told["code"], told["limit"], told["maximum"]) == ("limit-exceeded", "connections_at_once_max", 8)
    assert answer.headers["retry-after"] == "1"
    assert exchanged(open_ones[0], INFO).status == 200
    extra.close()
    open_ones[1].close()
    wait_until(lambda: len(place.served.server.server_state.connections) == 7)
    assert exchanged(connect(), INFO).status == 200


def test_header_limits_hold_on_the_wire(connect: Callable[[], socket]) -> None:
    longest = "X: " + "a" * (8 * 1024 - 2 - 3)
    assert exchanged(connect(), head("GET", "/info", longest)).status == 200
    told = problem(exchanged(connect(), head("GET", "/info", longest + "a")), 431)
    assert (told["limit"], told["maximum"]) == ("header_line_bytes_max", 8 * 1024)
    lines = [f"X{number}: {'a' * 8000}" for number in range(4)]
    rest = 32 * 1024 - len(head("GET", "/info", *lines, "Y: "))
    assert exchanged(connect(), head("GET", "/info", *lines, "Y: " + "a" * rest)).status == 200
    told = problem(exchanged(connect(), head("GET", "/info", *lines, "Y: " + "a" * (rest + 1))), 431)
    assert (told["limit"], told["maximum"]) == ("header_bytes_max", 32 * 1024)
    room = 8 * 1024 - 2 - len("GET /info?q= HTTP/1.1")
    assert exchanged(connect(), head("GET", "/info?q=" + "a" * room)).status == 400  # such a parameter is unknown
    told = problem(exchanged(connect(), head("GET", "/info?q=" + "a" * (room + 1))), 414)
    assert told["limit"] == "header_line_bytes_max"


def test_offers_of_other_protocols_are_not_taken_up(connect: Callable[[], socket]) -> None:
    for protocol in ("websocket", "h2c"):
        answer = exchanged(connect(), head("GET", "/info", "Connection: Upgrade", f"Upgrade: {protocol}"))
        assert answer.status == 200


def test_old_clients_are_answered_once(connect: Callable[[], socket]) -> None:
    connection = connect()
    assert exchanged(connection, b"GET /info HTTP/1.0\r\n\r\n").status == 200
    assert ends(connection)


def test_whoever_does_not_read_the_answer_is_dropped(tmp_path: Path) -> None:
    """16 MiB go into no buffer of the system.

    The reader has 0.2 s and what the least rate gives it.
    """
    app = FastAPI()
    app.state.closing = threading.Event()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(256):
            yield bytes(65536)

    @app.get("/large")
    async def large() -> StreamingResponse:
        return StreamingResponse(pieces())

    settings = Settings(workspace=tmp_path, body_start_s=0.2, body_bytes_per_s_min=10_000_000)
    with serving_app(app, settings) as served, served.connect() as idle, served.connect() as busy:
        idle.sendall(head("GET", "/large"))
        busy.sendall(head("GET", "/large", "Connection: close"))
        received_bytes = 0
        while piece := busy.recv(1 << 20):
            received_bytes += len(piece)
        assert received_bytes > 16 * 1024 * 1024
        state = served.server.server_state
        wait_until(lambda: not state.connections and not state.tasks, what="the end of both connections")
