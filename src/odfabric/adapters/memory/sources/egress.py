"""Sources, receivers and peers that exist in this process only.

Owns what stands in for the network when verbs are tried without it. Invariant: kept by the same suites as the real
adapters, so what a test learns here holds there.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

from odfabric.domain.sources.remote_answers import failed_answer
from odfabric.domain.transfer.direction import SERVED_SCHEMES
from odfabric.errors import (
    AccessDenied,
    CorruptedSource,
    Determinate,
    InvalidName,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    OdfError,
    Place,
    Unauthenticated,
)
from odfabric.formats.identifiers.dataset_layout import BLOCKS, HEAD, object_path, parse_ref
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.sources.egress import FetchedFile, RemoteDataset, WebhookResponse

_BYTES_MAX = 16 * 1024 * 1024

ReadObject = Callable[[str], bytes | None]
"""Bytes at a path below the root of a dataset, or None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryPage:
    """What a URL answers."""

    body: bytes = b""
    status: int = 200
    etag: str | None = None
    last_modified: str | None = None
    retry_after_s: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryRequest:
    """What was asked of a page."""

    url: str
    headers: tuple[tuple[str, str], ...]
    etag: str | None
    last_modified: str | None


class MemoryHttpSource:
    """`ports.sources.egress.HttpSource` over a dictionary of pages.

    A URL without a page is not found.
    """

    def __init__(self, pages: dict[str, MemoryPage] | None = None, *, source_bytes_max: int = _BYTES_MAX) -> None:
        self.pages = pages if pages is not None else {}
        self.requests: list[MemoryRequest] = []
        self._source_bytes_max = source_bytes_max

    def fetch(
        self, url: str, *, headers: Sequence[tuple[str, str]], etag: str | None, last_modified: str | None, into: Path
    ) -> FetchedFile:
        """The page, if it is not the one that is known."""
        _check_scheme(url, ("http", "https"))
        self.requests.append(
            MemoryRequest(url=url, headers=tuple(headers), etag=etag, last_modified=last_modified),
        )
        page = self.pages.get(url, MemoryPage(status=404))
        status = 304 if page.status == 200 and _is_known(page, etag, last_modified) else page.status
        match status:
            case 200:
                _write(page.body, into, limit="source_bytes_max", size_max=self._source_bytes_max)
            case 304:
                pass
            case _:
                raise failed_answer(status, url=url, what="source", retry_after_s=page.retry_after_s)
        size = len(page.body) if status == 200 else 0
        return FetchedFile(status=status, etag=page.etag, last_modified=page.last_modified, size=size)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedWebhook:
    """One attempt that has arrived."""

    url: str
    headers: dict[str, str]
    body: bytes


class MemoryWebhookSender:
    """`ports.sources.egress.WebhookSender` that keeps messages; answers by script.

    `script` is used up from the left, then every answer is 204. An error in it is raised; it arrives before an Indeterminate.
    """

    def __init__(self, script: Sequence[WebhookResponse | OdfError] = ()) -> None:
        self.script: deque[WebhookResponse | OdfError] = deque(script)
        self.received: list[ReceivedWebhook] = []

    def check(self, url: str) -> None:
        """Refuse what is not http or https."""
        _check_scheme(url, ("http", "https"))

    def target_uri(self, url: str) -> str:
        """See the port."""
        self.check(url)
        place = urlsplit(url)
        return urlunsplit((place.scheme, place.netloc.lower(), place.path or "/", place.query, ""))

    def post(self, url: str, *, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        """One attempt."""
        self.check(url)
        answer = self.script.popleft() if self.script else WebhookResponse(204)
        if not isinstance(answer, Determinate):
            self.received.append(ReceivedWebhook(url=url, headers=dict(headers), body=body))
        if isinstance(answer, OdfError):
            raise answer
        return answer


class MemoryRemoteDatasets:
    """`ports.sources.egress.RemoteDatasets` over what was published under a URL."""

    def __init__(self, *, block_bytes_max: int = _BYTES_MAX) -> None:
        self._published: dict[str, tuple[ReadObject, str | None]] = {}
        self._block_bytes_max = block_bytes_max

    def publish(self, url: str, files: Mapping[str, bytes], *, token: str | None = None) -> None:
        """Serve files by their path (`refs/head`, `blocks/...`).

        Later changes of the mapping show. `token`: who may read.
        """
        self._published[url] = (files.get, token)

    def publish_store(self, url: str, store: ObjectStore, *, prefix: str, token: str | None = None) -> None:
        """Serve the dataset that lies below `prefix` of a store."""

        def read(path: str) -> bytes | None:
            key = prefix + path
            if path == HEAD:
                ref = store.read_ref(key)
                return None if ref is None else ref.encode("ascii")
            if path.startswith(f"{HEAD}."):
                return stored_ref_bytes(store, key)
            return None if store.stat(key) is None else store.read_bytes(key, size_max=_BYTES_MAX)

        self._published[url] = (read, token)

    def open(self, url: str, *, token: str | None = None) -> RemoteDataset:
        """The dataset under a URL, whether or not there is one."""
        _check_scheme(url, SERVED_SCHEMES)

        def read(path: str) -> bytes | None:
            published, wanted = self._published.get(url, (_nothing, None))
            if wanted is not None and token is None:
                raise Unauthenticated(f"{url} wants a valid token")
            if wanted is not None and token != wanted:
                raise AccessDenied(f"{url} refuses this account")
            return published(path)

        return MemoryRemoteDataset(url, read, block_bytes_max=self._block_bytes_max)


class MemoryRemoteDataset:
    """One published dataset."""

    def __init__(self, url: str, read: ReadObject, *, block_bytes_max: int) -> None:
        self._url = url
        self._read = read
        self._block_bytes_max = block_bytes_max

    def head(self) -> Multihash:
        """Its head."""
        data = self._found(HEAD, "dataset", self._url)
        try:
            return parse_ref(data.decode("ascii"))
        except (InvalidName, UnicodeDecodeError):
            raise CorruptedSource(f"{HEAD} of {self._url} is not the hash of a block") from None

    def block(self, block_hash: Multihash) -> bytes:
        """Bytes of a block."""
        data = self._found(object_path(BLOCKS, block_hash), "block", str(block_hash))
        if len(data) > self._block_bytes_max:
            raise LimitExceeded(f"{block_hash} is too large", limit="block_bytes_max", maximum=self._block_bytes_max)
        return data

    def blocks(self, block_hash: Multihash, *, count_max: int) -> Sequence[bytes]:
        """The block alone: the next is asked for as soon as its name is known."""
        return [self.block(block_hash)]

    def ref(self, path: str) -> bytes | None:
        """A small file beside the head."""
        return self._read(path)

    def download(self, folder: str, object_hash: Multihash, *, size_max: int, into: Path) -> int:
        """An object into a new file."""
        data = self._found(object_path(folder, object_hash), "object", str(object_hash))
        return _write(data, into, limit="object_bytes_max", size_max=size_max)

    def _found(self, path: str, what: str, name: str) -> bytes:
        data = self._read(path)
        if data is None:
            raise NotFound(what, name)
        return data


def stored_ref_bytes(store: ObjectStore, key: str) -> bytes | None:
    """A small file of a store."""
    try:
        return store.read_bytes(key, size_max=_BYTES_MAX)
    except NotFound:
        return None


def _nothing(path: str) -> bytes | None:
    return None


def _is_known(page: MemoryPage, etag: str | None, last_modified: str | None) -> bool:
    if etag is not None:
        return etag == page.etag
    return last_modified is not None and last_modified == page.last_modified


def _check_scheme(url: str, schemes: Sequence[str]) -> None:
    if url.partition(":")[0] not in schemes:
        raise InvalidRequest("URL refused: scheme is not served", place=Place(field="url"), hint=", ".join(schemes))


def _write(data: bytes, into: Path, *, limit: str, size_max: int) -> int:
    if len(data) > size_max:
        raise LimitExceeded("the answer is too large", limit=limit, maximum=size_max)
    with into.open("xb") as file:
        return file.write(data)
