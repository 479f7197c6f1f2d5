"""What the adapters of `ports.sources.egress` promise, as tests.

A subclass gives the place where things are published and the adapter that reads them. Not here: the guard, which exists
only where there is a network.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import pytest

from odfabric.errors import (
    AccessDenied,
    CorruptedSource,
    Determinate,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    OdfError,
    Unauthenticated,
)
from odfabric.model.multihash import SHA3_256, Multihash
from odfabric.ports.sources.egress import HttpSource, RemoteDatasets, WebhookSender

SOURCE_BYTES_MAX = 100_000
BLOCK_BYTES_MAX = 50_000

ETAG = '"v1-\u00e9"'
"""An entity tag with a byte beyond ASCII, which RFC 9110 admits."""
LAST_MODIFIED = "Wed, 21 Oct 2015 07:28:00 GMT"

FAILURES: Sequence[tuple[Sequence[int], type[OdfError]]] = [
    ((201, 202, 203, 204, 206, 408, 425, 429, 500, 501, 502, 503, 504, 507, 511, 599), Determinate),
    ((300, 305, 306, 400, 402, 405, 406, 407, 409, 411, 412, 413, 414, 416, 418, 421, 422, 451, 499), InvalidRequest),
    ((401, 403), AccessDenied),
    ((404, 410), NotFound),
]
"""Statuses that are no answer of a source, and what is raised: only Determinate is worth a repetition."""


class Site(Protocol):
    """Pages under test."""

    def url(self, path: str) -> str:
        """The URL of a path."""

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
        """Answer this from now on; conditional requests are honoured for status 200."""


class HttpSourceContract:
    """Every `HttpSource`, made with `SOURCE_BYTES_MAX`."""

    @pytest.fixture
    def site(self) -> Site:
        """Where pages are put."""
        raise NotImplementedError

    @pytest.fixture
    def source(self, site: Site) -> HttpSource:
        """The adapter, allowed to reach the site."""
        raise NotImplementedError

    def test_a_page_becomes_a_file(self, site: Site, source: HttpSource, tmp_path: Path) -> None:
        site.put("/a.csv", b"a,b\n1,2\n", etag=ETAG, last_modified=LAST_MODIFIED)
        into = tmp_path / "a"
        fetched = source.fetch(site.url("/a.csv"), headers=[("X-Key", "k")], etag=None, last_modified=None, into=into)
        assert into.read_bytes() == b"a,b\n1,2\n"
        assert (fetched.status, fetched.size) == (200, 8)
        assert (fetched.etag, fetched.last_modified) == (ETAG, LAST_MODIFIED)

    def test_an_empty_page_is_an_empty_file(self, site: Site, source: HttpSource, tmp_path: Path) -> None:
        site.put("/empty")
        into = tmp_path / "a"
        fetched = source.fetch(site.url("/empty"), headers=[], etag=None, last_modified=None, into=into)
        assert (fetched.status, fetched.size, fetched.etag, fetched.last_modified) == (200, 0, None, None)
        assert into.read_bytes() == b""

    @pytest.mark.parametrize(
        ("etag", "last_modified", "status"),
        [
            (ETAG, None, 304),
            (None, LAST_MODIFIED, 304),
            ('"v0"', None, 200),
            (None, "Wed, 21 Oct 2015 07:27:59 GMT", 200),
            ('"v0"', LAST_MODIFIED, 200),  # the entity tag is asked about first
        ],
    )
    def test_what_is_known_is_not_fetched_again(
        self,
        site: Site,
        source: HttpSource,
        tmp_path: Path,
        etag: str | None,
        last_modified: str | None,
        status: int,
    ) -> None:
        site.put("/a", b"rows", etag=ETAG, last_modified=LAST_MODIFIED)
        into = tmp_path / "a"
        fetched = source.fetch(site.url("/a"), headers=[], etag=etag, last_modified=last_modified, into=into)
        assert (fetched.status, into.exists()) == (status, status == 200)
        assert fetched.size == (4 if status == 200 else 0)

    def test_what_is_not_there_is_not_found(self, site: Site, source: HttpSource, tmp_path: Path) -> None:
        with pytest.raises(NotFound):
            source.fetch(site.url("/nothing"), headers=[], etag=None, last_modified=None, into=tmp_path / "a")
        assert not (tmp_path / "a").exists()

    @pytest.mark.parametrize(("statuses", "leaf"), FAILURES)
    def test_every_other_status_is_a_failure_that_names_it(
        self, site: Site, source: HttpSource, tmp_path: Path, statuses: Sequence[int], leaf: type[OdfError]
    ) -> None:
        for status in statuses:
            site.put("/a", b"" if status == 204 else b"why", status=status)
            with pytest.raises(leaf) as failed:
                source.fetch(site.url("/a"), headers=[], etag=None, last_modified=None, into=tmp_path / "a")
            assert type(failed.value) is leaf
            assert str(status) in str(failed.value)
            assert site.url("/a") in str(failed.value)
        assert not (tmp_path / "a").exists()

    @pytest.mark.parametrize("status", [408, 425, 429, 500, 503])
    def test_when_to_ask_again_is_told(self, site: Site, source: HttpSource, tmp_path: Path, status: int) -> None:
        for wished_s in (None, 0, 120):
            site.put("/a", b"later", status=status, retry_after_s=wished_s)
            with pytest.raises(Determinate) as failed:
                source.fetch(site.url("/a"), headers=[], etag=None, last_modified=None, into=tmp_path / "a")
            assert failed.value.retry_after_s == wished_s

    def test_the_size_limit_holds_to_the_byte(self, site: Site, source: HttpSource, tmp_path: Path) -> None:
        site.put("/fits", b"x" * SOURCE_BYTES_MAX)
        site.put("/over", b"x" * (SOURCE_BYTES_MAX + 1))
        into = tmp_path / "fits"
        fetched = source.fetch(site.url("/fits"), headers=[], etag=None, last_modified=None, into=into)
        assert fetched.size == SOURCE_BYTES_MAX
        with pytest.raises(LimitExceeded) as refused:
            source.fetch(site.url("/over"), headers=[], etag=None, last_modified=None, into=tmp_path / "over")
        assert (refused.value.limit, refused.value.maximum) == ("source_bytes_max", SOURCE_BYTES_MAX)
        assert not (tmp_path / "over").exists()

    @pytest.mark.parametrize("url", ["ftp://host/a", "file:///etc/hostname", "a.csv", "javascript:1", ""])
    def test_other_schemes_are_refused(self, source: HttpSource, tmp_path: Path, url: str) -> None:
        with pytest.raises(InvalidRequest):
            source.fetch(url, headers=[], etag=None, last_modified=None, into=tmp_path / "a")


class Receiver(Protocol):
    """A receiver of webhooks under test."""

    def url(self) -> str:
        """Where it listens."""

    def answer(self, status: int, *, retry_after: str | None = None) -> None:
        """Answer the next attempt like this, with `said` as the body if it may have one."""

    def received(self) -> Sequence[tuple[dict[str, str], bytes]]:
        """Headers (lower-case names) and bodies of the attempts that have arrived."""


class WebhookSenderContract:
    """Every `WebhookSender`."""

    @pytest.fixture
    def receiver(self) -> Receiver:
        """Where attempts arrive."""
        raise NotImplementedError

    @pytest.fixture
    def sender(self, receiver: Receiver) -> WebhookSender:
        """The adapter, allowed to reach the receiver."""
        raise NotImplementedError

    def test_headers_and_body_arrive_as_given(self, receiver: Receiver, sender: WebhookSender) -> None:
        receiver.answer(204)
        answer = sender.post(receiver.url(), headers={"webhook-id": "abc", "content-type": "x/y"}, body=b'{"a":1}')
        assert (answer.status, answer.retry_after_s) == (204, None)
        ((headers, body),) = receiver.received()
        assert body == b'{"a":1}'
        assert {"webhook-id": "abc", "content-type": "x/y"}.items() <= headers.items()

    @pytest.mark.parametrize("status", [200, 202, 302, 307, 400, 404, 410, 429, 500, 503])
    def test_every_status_is_an_answer(self, receiver: Receiver, sender: WebhookSender, status: int) -> None:
        receiver.answer(status)
        assert sender.post(receiver.url(), headers={}, body=b"{}").status == status
        assert len(receiver.received()) == 1

    @pytest.mark.parametrize(("status", "excerpt"), [(200, "said"), (500, "said"), (204, "")])
    def test_the_beginning_of_the_answer_is_kept(
        self, receiver: Receiver, sender: WebhookSender, status: int, excerpt: str
    ) -> None:
        receiver.answer(status)
        assert sender.post(receiver.url(), headers={}, body=b"{}").excerpt == excerpt

    def test_retry_after_is_told_in_seconds(self, receiver: Receiver, sender: WebhookSender) -> None:
        receiver.answer(503, retry_after="120")
        assert sender.post(receiver.url(), headers={}, body=b"{}").retry_after_s == 120

    def test_the_url_is_checked_beforehand(self, receiver: Receiver, sender: WebhookSender) -> None:
        sender.check(receiver.url())
        for url in ("ftp://host/hook", "mailto:a@b", "/hook"):
            with pytest.raises(InvalidRequest):
                sender.check(url)

    def test_the_target_is_the_url_as_a_receiver_sees_it(self, receiver: Receiver, sender: WebhookSender) -> None:
        url = receiver.url()
        assert sender.target_uri(f"{url}?a=1#part") == f"{url}?a=1"
        assert sender.target_uri("https://Receiver.Example?a=1") == "https://receiver.example/?a=1"
        with pytest.raises(InvalidRequest):
            sender.target_uri("mailto:a@b")


class RemoteSite(Protocol):
    """A published dataset under test."""

    def url(self) -> str:
        """The dataset's URL."""

    def put(self, path: str, data: bytes) -> None:
        """Publish a file of the dataset."""


class RemoteDatasetsContract:
    """Every `RemoteDatasets`, made with `BLOCK_BYTES_MAX`."""

    NAME = Multihash(SHA3_256, bytes(range(32)))
    OTHER = Multihash(SHA3_256, bytes(32))

    @pytest.fixture
    def site(self) -> RemoteSite:
        """Where a dataset is published; nothing is at first."""
        raise NotImplementedError

    @pytest.fixture
    def remotes(self, site: RemoteSite) -> RemoteDatasets:
        """The adapter, allowed to reach the site."""
        raise NotImplementedError

    @pytest.mark.parametrize("around", ["{}", "{}\n", " {}\r\n"])
    def test_the_head_is_a_hash(self, site: RemoteSite, remotes: RemoteDatasets, around: str) -> None:
        site.put("refs/head", around.format(self.NAME).encode())
        assert remotes.open(site.url()).head() == self.NAME

    def test_a_dataset_that_is_not_there_shows_at_the_first_read(
        self, site: RemoteSite, remotes: RemoteDatasets
    ) -> None:
        remote = remotes.open(site.url())
        with pytest.raises(NotFound):
            remote.head()

    @pytest.mark.parametrize("text", [b"", b"nonsense", b"f1220" + b"00" * 32, b"\xff\xfe", b"f1620" + b"00" * 31])
    def test_a_head_that_is_no_block_hash_is_refused(
        self, site: RemoteSite, remotes: RemoteDatasets, text: bytes
    ) -> None:
        site.put("refs/head", text)
        with pytest.raises(CorruptedSource):
            remotes.open(site.url()).head()

    def test_blocks_come_byte_for_byte(self, site: RemoteSite, remotes: RemoteDatasets) -> None:
        data = bytes(range(256)) * 10
        site.put(f"blocks/{self.NAME}", data)
        remote = remotes.open(site.url())
        assert remote.block(self.NAME) == data
        with pytest.raises(NotFound):
            remote.block(self.OTHER)

    def test_a_block_over_the_limit_is_refused(self, site: RemoteSite, remotes: RemoteDatasets) -> None:
        site.put(f"blocks/{self.NAME}", b"x" * BLOCK_BYTES_MAX)
        site.put(f"blocks/{self.OTHER}", b"x" * (BLOCK_BYTES_MAX + 1))
        remote = remotes.open(site.url())
        assert len(remote.block(self.NAME)) == BLOCK_BYTES_MAX
        with pytest.raises(LimitExceeded) as refused:
            remote.block(self.OTHER)
        assert refused.value.limit == "block_bytes_max"

    @pytest.mark.parametrize("count", [1, 2, 1000])
    def test_blocks_that_may_come_at_once_begin_with_the_one_asked_for(
        self, site: RemoteSite, remotes: RemoteDatasets, count: int
    ) -> None:
        data = bytes(range(256)) * 2
        site.put(f"blocks/{self.NAME}", data)
        remote = remotes.open(site.url())
        found = remote.blocks(self.NAME, count_max=count)
        assert found[0] == data
        assert len(found) <= count
        with pytest.raises(NotFound):
            remote.blocks(self.OTHER, count_max=count)

    def test_of_several_blocks_none_is_over_the_limit(self, site: RemoteSite, remotes: RemoteDatasets) -> None:
        site.put(f"blocks/{self.NAME}", b"x" * (BLOCK_BYTES_MAX + 1))
        with pytest.raises(LimitExceeded) as refused:
            remotes.open(site.url()).blocks(self.NAME, count_max=10)
        assert refused.value.limit == "block_bytes_max"

    @pytest.mark.parametrize("folder", ["data", "checkpoints"])
    def test_objects_become_files(self, site: RemoteSite, remotes: RemoteDatasets, tmp_path: Path, folder: str) -> None:
        data = b"PAR1" * 1000
        site.put(f"{folder}/{self.NAME}", data)
        remote = remotes.open(site.url())
        into = tmp_path / "object"
        assert remote.download(folder, self.NAME, size_max=len(data), into=into) == len(data)
        assert into.read_bytes() == data

    def test_a_failed_download_leaves_no_file(self, site: RemoteSite, remotes: RemoteDatasets, tmp_path: Path) -> None:
        site.put(f"data/{self.NAME}", b"x" * 1001)
        remote = remotes.open(site.url())
        with pytest.raises(LimitExceeded):
            remote.download("data", self.NAME, size_max=1000, into=tmp_path / "over")
        with pytest.raises(NotFound):
            remote.download("data", self.OTHER, size_max=1000, into=tmp_path / "missing")
        assert not (tmp_path / "over").exists()
        assert not (tmp_path / "missing").exists()

    @pytest.mark.parametrize("url", ["ftp://host/ds", "ipfs://cid", "gopher://host/", "ds", ""])
    def test_other_schemes_are_refused(self, remotes: RemoteDatasets, url: str) -> None:
        with pytest.raises(InvalidRequest):
            remotes.open(url)


class ProtectedRemoteDatasetsContract:
    """Every `RemoteDatasets` whose peers know tokens.

    The site asks for `TOKEN` and knows `STRANGER`, who may not read.
    """

    TOKEN = "ka_0123456789"
    STRANGER = "ka_stranger"

    @pytest.fixture
    def protected(self) -> RemoteSite:
        """Where a dataset is published to the holder of the token."""
        raise NotImplementedError

    @pytest.fixture
    def remotes(self, protected: RemoteSite) -> RemoteDatasets:
        """The adapter, allowed to reach the site."""
        raise NotImplementedError

    def test_the_token_opens_it(self, protected: RemoteSite, remotes: RemoteDatasets) -> None:
        head = RemoteDatasetsContract.NAME
        protected.put("refs/head", str(head).encode())
        assert remotes.open(protected.url(), token=self.TOKEN).head() == head

    def test_who_has_none_or_the_wrong_one_is_told_so(self, protected: RemoteSite, remotes: RemoteDatasets) -> None:
        protected.put("refs/head", str(RemoteDatasetsContract.NAME).encode())
        with pytest.raises(Unauthenticated):
            remotes.open(protected.url()).head()
        with pytest.raises(AccessDenied):
            remotes.open(protected.url(), token=self.STRANGER).head()
