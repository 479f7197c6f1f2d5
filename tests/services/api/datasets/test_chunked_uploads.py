"""Chunked uploads over HTTP: by hand, by a broken connection, refusals.

By the command line over a connection that breaks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from odfabric.cli.backends.backend import PushFile
from odfabric.cli.backends.chunked_upload import is_large, push_in_chunks
from odfabric.cli.backends.node_client import NodeBackend
from odfabric.errors import Determinate, Indeterminate
from odfabric.testing.memory_node import MemoryNode
from tests.services.api.intercepting import Network, send_through
from tests.support.waiting import wait_until
from tests.usecases.manifests import ROOT

ROWS = b"".join(
    json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": "A" * day}).encode() + b"\n"
    for day in range(1, 29)
)
DIGEST = f"sha-256={hashlib.sha256(ROWS).hexdigest()}"
PART = {"content-type": "application/partial-upload"}


@pytest.fixture
def dataset(memory: MemoryNode, request: pytest.FixtureRequest) -> str:
    name = request.node.originalname.replace("_", "-")[:50] + str(
        len(memory.node.datasets.page(after=None, limit=1000))
    )
    return f"/{memory.add(ROOT.replace('name: readings', f'name: {name}')).alias}"


def append(client: httpx.Client, upload: str, offset: int, data: bytes) -> httpx.Response:
    return client.patch(upload, content=data, headers={**PART, "upload-offset": str(offset)})


def test_a_file_in_chunks_is_one_push(client: httpx.Client, dataset: str) -> None:
    begun = client.post(f"{dataset}/uploads", json={"size": len(ROWS)})
    assert (begun.status_code, begun.json()["offset"], begun.headers["upload-offset"]) == (201, 0, "0")
    upload = begun.headers["location"]
    assert "max-append-size=" in begun.headers["upload-limit"]
    assert append(client, upload, 0, ROWS[:100]).json()["offset"] == 100
    refused = append(client, upload, 0, ROWS[:100])
    assert (refused.status_code, refused.json()["code"]) == (409, "changed")
    assert "Upload-Offset: 100" in refused.json()["hint"]
    asked = client.head(upload)
    assert (asked.status_code, asked.headers["upload-offset"], asked.content) == (200, "100", b"")
    shown = client.get(upload)
    assert (shown.json()["offset"], shown.headers["upload-complete"]) == (100, "?0")
    done = append(client, upload, 100, ROWS[100:])
    assert (done.json()["complete"], done.headers["upload-complete"]) == (True, "?1")
    pushed = client.post(f"{upload}/ingest", json={"digest": DIGEST, "mediaType": "application/x-ndjson"})
    assert (pushed.status_code, pushed.json()["rows"]) == (200, 28)
    assert client.post(f"{upload}/ingest", json={"digest": DIGEST}).json() == pushed.json()
    assert client.get(upload).json()["job"]
    assert client.delete(upload).status_code == 204
    assert client.get(upload).status_code == 404


def test_what_is_wrong_with_a_chunk_is_said(client: httpx.Client, dataset: str) -> None:
    upload = client.post(f"{dataset}/uploads", json={"size": 10}).headers["location"]
    assert client.patch(upload, content=b"x", headers={"upload-offset": "0"}).status_code == 415
    for offset in ("", "-1", "1x"):
        answer = client.patch(upload, content=b"x", headers={**PART, "upload-offset": offset})
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")
    assert append(client, upload, 0, b"x" * 11).status_code == 400
    assert append(client, upload, 0, b"x" * 10).json()["complete"] is True
    wrong = client.post(f"{upload}/ingest", json={"digest": "sha-256=" + "0" * 64})
    assert (wrong.status_code, wrong.json()["code"]) == (422, "invalid-data")
    assert client.get(upload).status_code == 404


def test_what_arrives_before_a_connection_breaks_is_kept(client: httpx.Client, dataset: str) -> None:
    """But for the last pieces, which the server may not have looked at."""
    piece, pieces = b"x" * 65_536, 128
    upload = client.post(f"{dataset}/uploads", json={"size": len(piece) * pieces}).headers["location"]

    def breaking() -> Iterator[bytes]:
        yield from [piece] * (pieces // 2)
        raise ConnectionError("the train is in a tunnel")

    with pytest.raises(ConnectionError):
        client.patch(upload, content=breaking(), headers={**PART, "upload-offset": "0"})
    offset = wait_until(lambda: client.get(upload).json()["offset"], deadline_s=20, what="the bytes before the break")
    assert 0 < offset <= len(piece) * pieces // 2
    whole = piece * pieces
    assert append(client, upload, offset, whole[offset:]).json()["complete"] is True


class Breaking(Network):
    """A network that breaks every other request body, and loses some answers.

    It breaks in the middle, and loses one answer to each method.
    """

    def __init__(self, inner: httpx.BaseTransport) -> None:
        super().__init__(inner)
        self.sent = 0
        self._lost: set[str] = set()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PATCH":
            self.sent += 1
            if self.sent % 2:
                raise httpx.WriteError("broken pipe")
        answer = super().handle_request(request)
        if request.method not in self._lost and request.method != "GET":
            self._lost.add(request.method)
            answer.close()
            raise httpx.ReadError("the answer is lost")
        return answer


def push_of(path: Path) -> PushFile:
    return PushFile(
        path=str(path), name=str(path), source_name=None, media_type=None, event_time=None, idempotency_key=None
    )


def test_the_command_goes_on_after_breaks_and_pushes_once(
    backend: NodeBackend, client: httpx.Client, dataset: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ROWS)
    backend.show(dataset.rpartition("/")[2])
    send_through(backend, Breaking)
    answer = push_in_chunks(backend.connection, dataset, push_of(path), chunk_bytes=400, sleep=lambda _: None)
    assert answer.json()["rows"] == 28
    assert len(client.get(f"{dataset}/tail", params={"limit": 100}).json()["data"]) == 28


class Ending(httpx.BaseTransport):
    """A network that ends the command after some chunks, and notes what was sent.

    It counts the bytes of the chunks that go through.
    """

    def __init__(self, inner: httpx.BaseTransport, chunks: int) -> None:
        self._inner = inner
        self._left = chunks
        self.offsets: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        if request.method == "PATCH":
            if not self._left:
                raise KeyboardInterrupt
            self._left -= 1
            self.offsets.append(request.headers["upload-offset"])
        return self._inner.handle_request(request)


def test_the_command_goes_on_with_the_upload_that_it_began(
    backend: NodeBackend, client: httpx.Client, dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ROWS)
    backend.show(dataset.rpartition("/")[2])
    http = backend.connection.http
    network, first = http._transport, Ending(http._transport, 2)
    monkeypatch.setattr(http, "_transport", first)
    with pytest.raises(KeyboardInterrupt):
        push_in_chunks(backend.connection, dataset, push_of(path), chunk_bytes=400)
    again = Ending(network, 100)
    monkeypatch.setattr(http, "_transport", again)
    answer = push_in_chunks(backend.connection, dataset, push_of(path), chunk_bytes=400)
    assert answer.json()["rows"] == 28
    assert (first.offsets, again.offsets[0]) == (["0", "400"], "800")
    assert len(client.get(f"{dataset}/tail", params={"limit": 100}).json()["data"]) == 28
    # What was pushed is not gone on with: the same file once more is another push.
    assert client.post(f"{dataset}/uploads", json={"size": len(ROWS), "digest": DIGEST}).status_code == 201


def test_the_command_gives_up_when_nothing_gets_through(
    backend: NodeBackend, dataset: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Gone(Network):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            if request.method == "PATCH":
                raise httpx.WriteError("broken pipe")
            return super().handle_request(request)

    monkeypatch.setattr("odfabric.cli.backends.chunked_upload.BREAKS_S_MAX", 0.2)
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ROWS)
    backend.show(dataset.rpartition("/")[2])
    send_through(backend, Gone)
    with pytest.raises((Determinate, Indeterminate)):
        push_in_chunks(backend.connection, dataset, push_of(path), sleep=lambda _: None)


def test_large_files_are_those_from_a_size(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"x" * 100)
    assert is_large(push_of(path), from_bytes=100)
    assert not is_large(push_of(path), from_bytes=101)
    assert not is_large(push_of(tmp_path), from_bytes=0)
