"""Sources, receivers, peers: memory and loopback servers keep one contract."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from odfabric.adapters.http.egress import Egress
from odfabric.adapters.http.fetch import HttpFetch
from odfabric.adapters.http.remote_dataset import HttpRemoteDatasets
from odfabric.adapters.http.webhook import HttpWebhookSender
from odfabric.adapters.local_fs.remote_folder import FolderRemoteDatasets
from odfabric.adapters.memory.sources.egress import (
    MemoryHttpSource,
    MemoryPage,
    MemoryRemoteDatasets,
    MemoryWebhookSender,
)
from odfabric.ports.sources.egress import WebhookResponse
from odfabric.testing.conformance.sources.egress import (
    BLOCK_BYTES_MAX,
    SOURCE_BYTES_MAX,
    HttpSourceContract,
    ProtectedRemoteDatasetsContract,
    RemoteDatasetsContract,
    WebhookSenderContract,
)
from tests.support.loopback_http import LoopbackServer, Seen, reply


class ServedSite:
    """Pages on a loopback server."""

    def __init__(self) -> None:
        self.pages: dict[str, MemoryPage] = {}
        self.server = LoopbackServer(self._respond)

    def url(self, path: str) -> str:
        return self.server.url(path)

    def put(
        self,
        path: str,
        body: bytes = b"",
        *,
        status: int = 200,
        etag: str | None = None,
        last_modified: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        self.pages[path] = MemoryPage(
            body=body, status=status, etag=etag, last_modified=last_modified, retry_after_s=retry_after_s
        )

    def _respond(self, seen: Seen) -> bytes:
        page = self.pages.get(seen.target, MemoryPage(status=404))
        given = {"ETag": page.etag, "Last-Modified": page.last_modified}
        headers = {name: value for name, value in given.items() if value is not None}
        if page.retry_after_s is not None:
            headers["Retry-After"] = str(page.retry_after_s)
        if "if-none-match" in seen.headers:
            known = seen.headers["if-none-match"] == page.etag
        else:
            known = seen.headers.get("if-modified-since", "") == page.last_modified
        if page.status == 200 and known:
            return b"HTTP/1.1 304 Known\r\n\r\n"
        if page.status == 204:
            return b"HTTP/1.1 204 Nothing\r\n\r\n"
        return reply(page.status, page.body, headers)


class TestHttpFetch(HttpSourceContract):
    @pytest.fixture
    def site(self) -> Iterator[ServedSite]:
        site = ServedSite()
        with site.server.serving():
            yield site

    @pytest.fixture
    def source(self, site: ServedSite) -> Iterator[HttpFetch]:
        with Egress(allow=[site.server.place]) as egress:
            yield HttpFetch(egress, source_bytes_max=SOURCE_BYTES_MAX)


class MemorySite:
    """Pages in a dictionary."""

    def __init__(self) -> None:
        self.source = MemoryHttpSource(source_bytes_max=SOURCE_BYTES_MAX)

    def url(self, path: str) -> str:
        return f"https://site.example{path}"

    def put(
        self,
        path: str,
        body: bytes = b"",
        *,
        status: int = 200,
        etag: str | None = None,
        last_modified: str | None = None,
        retry_after_s: int | None = None,
    ) -> None:
        self.source.pages[self.url(path)] = MemoryPage(
            body=body, status=status, etag=etag, last_modified=last_modified, retry_after_s=retry_after_s
        )


class TestMemoryHttpSource(HttpSourceContract):
    @pytest.fixture
    def site(self) -> MemorySite:
        return MemorySite()

    @pytest.fixture
    def source(self, site: MemorySite) -> MemoryHttpSource:
        return site.source


class ServedReceiver:
    """A receiver on a loopback server."""

    def __init__(self) -> None:
        self.next = reply(200)
        self.server = LoopbackServer(lambda seen: self.next)

    def url(self) -> str:
        return self.server.url("/hook")

    def answer(self, status: int, *, retry_after: str | None = None) -> None:
        headers = {"Location": self.server.url("/elsewhere")} if 300 <= status <= 399 else {}
        if retry_after is not None:
            headers["Retry-After"] = retry_after
        self.next = b"HTTP/1.1 204 Nothing\r\n\r\n" if status == 204 else reply(status, b"said", headers)

    def received(self) -> Sequence[tuple[dict[str, str], bytes]]:
        return [(seen.headers, seen.body) for seen in self.server.seen]


class TestHttpWebhookSender(WebhookSenderContract):
    @pytest.fixture
    def receiver(self) -> Iterator[ServedReceiver]:
        receiver = ServedReceiver()
        with receiver.server.serving():
            yield receiver

    @pytest.fixture
    def sender(self, receiver: ServedReceiver) -> Iterator[HttpWebhookSender]:
        with Egress(allow=[receiver.server.place]) as egress:
            yield HttpWebhookSender(egress, timeout_s=10.0)


class MemoryReceiver:
    """What the memory sender remembers."""

    def __init__(self) -> None:
        self.sender = MemoryWebhookSender()

    def url(self) -> str:
        return "https://receiver.example/hook"

    def answer(self, status: int, *, retry_after: str | None = None) -> None:
        self.sender.script.append(
            WebhookResponse(status, int(retry_after) if retry_after else None, "" if status == 204 else "said")
        )

    def received(self) -> Sequence[tuple[dict[str, str], bytes]]:
        return [(one.headers, one.body) for one in self.sender.received]


class TestMemoryWebhookSender(WebhookSenderContract):
    @pytest.fixture
    def receiver(self) -> MemoryReceiver:
        return MemoryReceiver()

    @pytest.fixture
    def sender(self, receiver: MemoryReceiver) -> MemoryWebhookSender:
        return receiver.sender


class ServedDataset:
    """A dataset on a loopback server; `tokens` says what each one gets."""

    def __init__(self, scheme: str, tokens: dict[str | None, int]) -> None:
        self.files: dict[str, bytes] = {}
        self.scheme, self.tokens = scheme, tokens
        self.server = LoopbackServer(self._respond)

    def url(self) -> str:
        return self.server.url("/account/flights").replace("http", self.scheme, 1)

    def put(self, path: str, data: bytes) -> None:
        self.files[f"/account/flights/{path}"] = data

    def _respond(self, seen: Seen) -> bytes:
        status = self.tokens.get(seen.headers.get("authorization"), 200)
        if status != 200 or seen.target not in self.files:
            return reply(status if status != 200 else 404, b'{"message":"no"}')
        return reply(200, self.files[seen.target])


@pytest.mark.parametrize("scheme", ["http", "odf+http"])
class TestHttpRemoteDatasets(RemoteDatasetsContract):
    @pytest.fixture
    def site(self, scheme: str) -> Iterator[ServedDataset]:
        site = ServedDataset(scheme, {})
        with site.server.serving():
            yield site

    @pytest.fixture
    def remotes(self, site: ServedDataset) -> Iterator[HttpRemoteDatasets]:
        with Egress(allow=[site.server.place]) as egress:
            yield HttpRemoteDatasets(egress, block_bytes_max=BLOCK_BYTES_MAX)


class TestProtectedHttpRemoteDatasets(ProtectedRemoteDatasetsContract):
    @pytest.fixture
    def protected(self) -> Iterator[ServedDataset]:
        site = ServedDataset("http", {None: 401, f"Bearer {self.STRANGER}": 403})
        with site.server.serving():
            yield site

    @pytest.fixture
    def remotes(self, protected: ServedDataset) -> Iterator[HttpRemoteDatasets]:
        with Egress(allow=[protected.server.place]) as egress:
            yield HttpRemoteDatasets(egress, block_bytes_max=BLOCK_BYTES_MAX)


class FolderSite:
    """A dataset in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def url(self) -> str:
        return self.root.as_uri()

    def put(self, path: str, data: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)


class TestFolderRemoteDatasets(RemoteDatasetsContract):
    @pytest.fixture
    def site(self, tmp_path: Path) -> FolderSite:
        return FolderSite(tmp_path / "poll" / "flights é")

    @pytest.fixture
    def remotes(self, tmp_path: Path) -> FolderRemoteDatasets:
        return FolderRemoteDatasets(tmp_path / "poll", block_bytes_max=BLOCK_BYTES_MAX)


class MemoryDataset:
    """A dataset in a dictionary."""

    def __init__(self, remotes: MemoryRemoteDatasets, token: str | None) -> None:
        self.files: dict[str, bytes] = {}
        remotes.publish(self.url(), self.files, token=token)

    def url(self) -> str:
        return "odf+https://peer.example/account/flights"

    def put(self, path: str, data: bytes) -> None:
        self.files[path] = data


class TestMemoryRemoteDatasets(RemoteDatasetsContract):
    @pytest.fixture
    def remotes(self) -> MemoryRemoteDatasets:
        return MemoryRemoteDatasets(block_bytes_max=BLOCK_BYTES_MAX)

    @pytest.fixture
    def site(self, remotes: MemoryRemoteDatasets) -> MemoryDataset:
        return MemoryDataset(remotes, token=None)


class TestProtectedMemoryRemoteDatasets(ProtectedRemoteDatasetsContract):
    @pytest.fixture
    def remotes(self) -> MemoryRemoteDatasets:
        return MemoryRemoteDatasets(block_bytes_max=BLOCK_BYTES_MAX)

    @pytest.fixture
    def protected(self, remotes: MemoryRemoteDatasets) -> MemoryDataset:
        return MemoryDataset(remotes, token=self.TOKEN)
