"""Bodies: limits on both sides, slow, broken, many at once; effects on others."""

from __future__ import annotations

import logging
import resource
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from socket import socket

import pytest

from odfabric.adapters.local_fs.object_store import FolderObjectStore
from odfabric.formats.jobs.push_request import read_push_request
from odfabric.model.jobs.job import JobStatus
from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring import Node
from odfabric_api.edge import EdgeMiddleware
from odfabric_api.request_ids import RequestIds
from odfabric_api.timing import TimingMiddleware
from tests.services.api.raw import RawAnswer, ends, exchanged, head, read_answer
from tests.services.api.serving import Served, serving, working
from tests.support.waiting import wait_until
from tests.usecases.manifests import ROOT

ROWS = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'
INGEST = "/local/readings/ingest"
PUSHES_MAX = 3
REQUESTS_MAX = 5
PUSH_BYTES_MAX = 4096


@dataclass(frozen=True, slots=True)
class Place:
    """A server with small limits, a node on a real folder."""

    served: Served
    node: Node
    folder: Path

    def stored(self) -> list[Path]:
        """Every file of uploads, those being written included."""
        return [path for path in (self.folder / "staging").rglob("*") if path.is_file()]

    def unfinished(self) -> int:
        return len(self.node.ports.jobs.page(unfinished_only=True, limit=100))


def small(folder: Path, **other: object) -> Settings:
    values: dict[str, object] = {
        "workspace": folder,
        "push_body_bytes_max": PUSH_BYTES_MAX,
        "push_inline_bytes_max": 0,  # every upload is an object, which can be looked for
        "manifest_bytes_max": 2048,
        "json_body_bytes_max": 512,
        "query_body_bytes_max": 1024,
        "query_text_bytes_max": 256,
        "body_start_s": 0.4,
        "body_wait_s_max": 1.5,
        "linger_s_max": 0.3,
        "requests_at_once_max": REQUESTS_MAX,
        "pushes_at_once_max": PUSHES_MAX,
    }
    return Settings.model_validate({**values, **other})


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder: Path = tmp_path_factory.mktemp("node")
    memory = MemoryNode(folder)
    ports = replace(memory.node.ports, objects=FolderObjectStore(folder / "objects"))
    node = Node(ports, small(folder))
    with serving(node) as served, working(node), served.client() as client:
        assert client.post("/datasets", content=ROOT, headers={"content-type": "application/yaml"}).status_code == 201
        yield Place(served, node, folder / "objects")


@pytest.fixture
def connect(place: Place) -> Iterator[Callable[[], socket]]:
    with ExitStack() as closing:
        yield lambda: closing.enter_context(place.served.connect())
    wait_until(lambda: not place.served.server.server_state.tasks, what="the end of all requests")


def limit_of(answer: RawAnswer, status: int) -> object:
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/problem+json"
    return answer.json()["limit"]


def rows_of(size: int) -> bytes:
    """NDJSON of exactly this size, spaces at the end of its last line."""
    return ROWS * (size // len(ROWS) - 1) + ROWS[:-1] + b" " * (size % len(ROWS)) + b"\n"


def chunked(body: bytes) -> bytes:
    return b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)


@pytest.mark.parametrize("coding", ["length", "chunked"])
def test_a_push_of_the_limit_passes_and_one_byte_more_does_not(connect: Callable[[], socket], coding: str) -> None:
    def push(body: bytes) -> RawAnswer:
        if coding == "length":
            return exchanged(connect(), head("POST", INGEST, f"Content-Length: {len(body)}") + body)
        return exchanged(connect(), head("POST", INGEST, "Transfer-Encoding: chunked") + chunked(body))

    assert push(rows_of(PUSH_BYTES_MAX)).status == 200
    assert limit_of(push(rows_of(PUSH_BYTES_MAX + 1)), 413) == "push_body_bytes_max"


@pytest.mark.parametrize(
    ("target", "media_type", "limit", "maximum"),
    [
        ("/datasets", "application/yaml", "manifest_bytes_max", 2048),
        ("/query", "application/json", "query_body_bytes_max", 1024),
        ("/local/readings/verify", "application/json", "json_body_bytes_max", 512),
        ("/local/readings/pull", "application/json", "json_body_bytes_max", 512),
        ("/local/readings/subscriptions", "application/json", "json_body_bytes_max", 512),
    ],
)
def test_each_body_has_a_limit(
    connect: Callable[[], socket], target: str, media_type: str, limit: str, maximum: int
) -> None:
    def post(size: int) -> RawAnswer:
        lines = (f"Content-Type: {media_type}", f"Content-Length: {size}")
        return exchanged(connect(), head("POST", target, *lines) + b"?" * size)

    assert limit_of(post(maximum + 1), 413) == limit
    assert post(maximum).status in (400, 422)  # read whole, and found to be nonsense


def test_a_query_text_of_the_limit_passes_and_one_byte_more_does_not(place: Place) -> None:
    text = "select * from readings".ljust(256)
    with place.served.client() as client:
        assert client.post("/query", json={"query": text}).status_code == 200
        refused = client.post("/query", json={"query": text + " "})
    assert (refused.status_code, refused.json()["limit"]) == (413, "query_text_bytes_max")


@pytest.mark.parametrize(
    ("target", "limit"),
    [(INGEST, "push_body_bytes_max"), ("/query", "query_body_bytes_max"), ("/datasets", "manifest_bytes_max")],
)
def test_a_body_that_is_too_large_is_refused_before_it_is_read(
    connect: Callable[[], socket], target: str, limit: str
) -> None:
    connection = connect()
    length = f"Content-Length: {PUSH_BYTES_MAX + 1}"
    answer = exchanged(connection, head("POST", target, length, "Expect: 100-continue"))
    assert limit_of(answer, 413) == limit  # and not 100
    assert answer.headers["connection"] == "close"
    assert ends(connection)


def test_a_body_is_asked_for_when_it_is_wanted(connect: Callable[[], socket]) -> None:
    connection = connect()
    connection.sendall(head("POST", INGEST, f"Content-Length: {len(ROWS)}", "Expect: 100-continue"))
    assert read_answer(connection).status == 100
    assert exchanged(connection, ROWS).status == 200


def test_an_early_refusal_is_not_lost_in_a_reset(place: Place, tmp_path: Path) -> None:
    """The client sends on: its bytes are dropped, the connection ends in order."""
    size = PUSH_BYTES_MAX * 50
    patient = small(tmp_path, linger_s_max=20)
    with serving(Node(place.node.ports, patient)) as served, served.connect() as connection:
        answer = exchanged(connection, head("POST", INGEST, f"Content-Length: {size}"))
        assert limit_of(answer, 413) == "push_body_bytes_max"
        for _ in range(50):
            connection.sendall(bytes(PUSH_BYTES_MAX))
        assert connection.recv(1) == b""


def test_whoever_may_not_push_is_told_before_the_body_is_read(connect: Callable[[], socket]) -> None:
    connection = connect()
    request = head("POST", INGEST, "Content-Length: 1000", "Expect: 100-continue", token=None)
    assert exchanged(connection, request).status == 404
    assert ends(connection)


def test_a_body_that_stops_is_given_up_and_leaves_nothing(place: Place, connect: Callable[[], socket]) -> None:
    connection = connect()
    answer = exchanged(connection, head("POST", INGEST, "Content-Length: 1000") + ROWS)
    assert limit_of(answer, 408) == "body_bytes_per_s_min"
    assert ends(connection)
    assert (place.stored(), place.unfinished()) == ([], 0)


def test_a_body_slower_than_the_least_rate_is_given_up(connect: Callable[[], socket]) -> None:
    """A byte now and then does not buy time: 0.4 s and what bytes buy at 1 KiB/s."""
    connection = connect()
    connection.sendall(head("POST", INGEST, "Content-Length: 1000"))
    stop = threading.Event()

    def trickle() -> None:
        while not stop.wait(0.05):
            try:
                connection.sendall(b"\n")
            except OSError:
                return

    sender = threading.Thread(target=trickle)
    sender.start()
    try:
        assert limit_of(read_answer(connection), 408) == "body_bytes_per_s_min"
    finally:
        stop.set()
        sender.join()


def test_a_body_has_to_arrive_within_its_time(place: Place, connect: Callable[[], socket]) -> None:
    """Fast enough by rate, endless all the same."""
    connection = connect()
    connection.sendall(head("POST", INGEST, "Transfer-Encoding: chunked"))
    stop = threading.Event()

    def pour() -> None:
        while not stop.wait(0.02):
            try:
                connection.sendall(b"28\r\n" + b"\n" * 40 + b"\r\n")
            except OSError:
                return

    sender = threading.Thread(target=pour)
    sender.start()
    try:
        assert limit_of(read_answer(connection), 408) == "body_wait_s_max"
    finally:
        stop.set()
        sender.join()
    assert (place.stored(), place.unfinished()) == ([], 0)


def test_a_client_that_leaves_in_the_middle_leaves_nothing(
    place: Place, connect: Callable[[], socket], caplog: pytest.LogCaptureFixture
) -> None:
    connection = connect()
    connection.sendall(head("POST", INGEST, "Content-Length: 1000") + ROWS)
    wait_until(place.stored, what="the upload's file")
    with caplog.at_level(logging.INFO):
        connection.close()
        wait_until(lambda: not place.served.server.server_state.tasks, what="the end of the request")
    assert (place.stored(), place.unfinished()) == ([], 0)
    assert [record.getMessage() for record in caplog.records if record.levelno > logging.INFO] == []


def test_a_client_that_leaves_while_it_waits_is_not_waited_for(tmp_path: Path) -> None:
    """Nobody works here, so the answer would come after `push_wait_s_max`.

    The job stays.
    """
    memory = MemoryNode(tmp_path)
    memory.add(ROOT)
    with serving(memory.node) as served, served.connect() as connection:
        connection.sendall(head("POST", INGEST, f"Content-Length: {len(ROWS)}") + ROWS)
        wait_until(lambda: memory.node.ports.jobs.page(unfinished_only=True, limit=10), what="the job")
        connection.close()
        wait_until(lambda: not served.server.server_state.tasks, deadline_s=10, what="the end of the request")
    assert len(memory.node.ports.jobs.page(unfinished_only=True, limit=10)) == 1


def stalled_push(connect: Callable[[], socket]) -> socket:
    connection = connect()
    connection.sendall(head("POST", INGEST, "Content-Length: 1000"))
    return connection


def test_slow_pushes_take_their_own_places_only(tmp_path: Path, place: Place) -> None:
    """With all push slots taken, another push must wait; all else is served."""
    patient = small(tmp_path, body_start_s=120, body_wait_s_max=120)
    with serving(Node(place.node.ports, patient)) as served, served.client() as client, ExitStack() as closing:
        for _ in range(PUSHES_MAX):
            stalled_push(lambda: closing.enter_context(served.connect()))
        wait_until(lambda: served.app.state.capacity.pushes.taken == PUSHES_MAX, what="the slow pushes")
        refused = client.post(INGEST, content=ROWS)
        assert (refused.status_code, refused.json()["limit"]) == (429, "pushes_at_once_max")
        assert refused.headers["retry-after"] == "1"
        assert client.get("/system/health").json()["ok"] is True
        assert client.get("/local/readings/tail").status_code == 200
        assert client.post("/query", json={"query": "select * from readings"}).status_code == 200
        closing.close()
        wait_until(lambda: served.app.state.capacity.pushes.taken == 0, what="the end of the slow pushes")
        assert client.post(INGEST, content=ROWS).status_code == 200


def test_slow_pushes_do_not_use_up_the_threads_of_others(tmp_path: Path, place: Place) -> None:
    """More slow bodies than the common pool has threads."""
    patient = small(tmp_path, body_start_s=120, body_wait_s_max=120, pushes_at_once_max=60, requests_at_once_max=64)
    with serving(Node(place.node.ports, patient)) as served, served.client() as client, ExitStack() as closing:
        for _ in range(60):
            stalled_push(lambda: closing.enter_context(served.connect()))
        wait_until(lambda: served.app.state.capacity.pushes.taken == 60, what="the slow pushes")
        assert client.get("/local/readings/tail").status_code == 200
        assert client.get("/system/health").status_code == 200


def test_one_request_too_many_is_told_so_and_health_answers_still(tmp_path: Path, place: Place) -> None:
    patient = small(tmp_path, body_start_s=120, body_wait_s_max=120, requests_at_once_max=2)
    with serving(Node(place.node.ports, patient)) as served, served.client() as client, ExitStack() as closing:
        for _ in range(2):
            stalled_push(lambda: closing.enter_context(served.connect()))
        wait_until(lambda: served.app.state.capacity.pushes.taken == 2, what="the slow pushes")
        refused = client.get("/info")
        assert (refused.status_code, refused.json()["limit"]) == (429, "requests_at_once_max")
        assert refused.headers["retry-after"] == "1"
        assert client.get("/system/health").status_code == 200
        closing.close()
        wait_until(lambda: client.get("/info").status_code == 200, what="a free place")


def test_the_end_of_the_service_answers_those_who_wait_and_drops_those_who_stall(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    memory = MemoryNode(tmp_path)
    memory.add(ROOT)
    patient = small(tmp_path, body_start_s=60, body_wait_s_max=60, shutdown_s_max=2)
    node = Node(memory.node.ports, patient)
    with serving(node) as served, served.connect() as waiting, served.connect() as stalled:
        waiting.sendall(head("POST", INGEST, f"Content-Length: {len(ROWS)}") + ROWS)
        stalled.sendall(head("POST", INGEST, "Content-Length: 1000") + ROWS)
        wait_until(lambda: served.app.state.capacity.pushes.taken == 2, what="both pushes")
        wait_until(lambda: node.ports.jobs.page(unfinished_only=True, limit=10), what="the job")
        served.server.should_exit = True
        answer = read_answer(waiting)
        assert answer.status == 202
        assert ends(stalled)
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
    job = answer.json()["job"]
    assert isinstance(job, dict)
    assert memory.finish(node.jobs.get(str(job["id"]))).status is JobStatus.SUCCEEDED
    assert list(memory.objects.keys("staging/")) == []


def test_a_large_push_needs_little_memory(tmp_path: Path) -> None:
    """200 MiB through the edge onto a disk.

    The peak of this process is what it was before, give or take buffers.
    """
    size = 200 * 1024 * 1024
    memory = MemoryNode(tmp_path)
    ports = replace(memory.node.ports, objects=FolderObjectStore(tmp_path / "objects"))
    node = Node(ports, Settings(workspace=tmp_path))
    with serving(node) as served, served.client() as client:
        client.post("/datasets", content=ROOT)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        pieces = (bytes(1 << 20) for _ in range(size >> 20))
        answer = client.post(INGEST, content=pieces, headers={"prefer": "respond-async"})
        assert answer.status_code == 202
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    staged = read_push_request(node.jobs.get(answer.json()["job"]["id"])).staged
    stat = ports.objects.stat(str(staged))
    assert stat is not None
    assert stat.size == size
    assert grown_kib < 60 * 1024


def test_the_edge_is_the_outermost_layer_of_ours_that_answers(place: Place) -> None:
    """What it wraps cannot answer without its headers and limits.

    Those around it name and measure answers, its refusals too.
    """
    layers = [layer.cls for layer in place.served.app.user_middleware]
    assert layers[:3] == [RequestIds, TimingMiddleware, EdgeMiddleware]
