"""Evil servers of S3: they list without end, drip, and lie about lengths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from odfabric.adapters.http.egress import Egress
from odfabric.adapters.s3.guarded import ANSWER_BYTES_MAX, AnswerPace
from odfabric.adapters.s3.remote_stores import BucketKeys, S3RemoteStores
from odfabric.adapters.stored_datasets.remote import StoredRemoteDatasets
from odfabric.errors import CorruptedSource, Determinate, Indeterminate, LimitExceeded
from odfabric.ports.sources.egress import RemoteDataset
from tests.support.loopback_http import LoopbackServer, Seen, reply

NAMES_MAX = 1000
XML = {"Content-Type": "application/xml"}
PAGE = (
    '<?xml version="1.0"?><ListBucketResult><IsTruncated>true</IsTruncated>'
    "<NextContinuationToken>{number}</NextContinuationToken>"
    "<Contents><Key>ds/data/{number}</Key><Size>1</Size></Contents></ListBucketResult>"
)


class Evil:
    """A server, and our client of it."""

    def __init__(self, stack: ExitStack, respond: Callable[[LoopbackServer, Seen], bytes | Iterator[bytes]]) -> None:
        self.server = LoopbackServer(lambda seen: respond(self.server, seen))
        stack.enter_context(self.server.serving())
        egress = stack.enter_context(Egress(allow=[self.server.place]))
        own = BucketKeys(access_key="ours", secret_key="secret-of-ours", region="us-east-1")
        self.stores = S3RemoteStores(
            egress.connections([self.server.port]),
            keys={f"s3+http://{self.server.place}/bucket": own},
            read_s_max=5.0,
            attempts_max=1,
            names_max=NAMES_MAX,
            pace=AnswerPace(window_s=0.2),
        )
        stack.callback(self.stores.close)
        self.url = f"s3+http://{self.server.place}/bucket/ds/"

    @property
    def dataset(self) -> RemoteDataset:
        return StoredRemoteDatasets(self.stores, block_bytes_max=1000).open(self.url)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as found:
        yield found


def pages(server: LoopbackServer, _: Seen) -> bytes:
    return reply(200, PAGE.format(number=len(server.seen)).encode(), XML)


def test_a_listing_without_an_end_ends_at_its_limit(stack: ExitStack) -> None:
    evil = Evil(stack, pages)
    with pytest.raises(LimitExceeded) as refused:
        list(evil.stores.open(evil.url, writes=True).keys("data/"))
    assert (refused.value.limit, len(evil.server.seen)) == ("remote_names_max", NAMES_MAX // 100)


def test_a_search_looks_at_no_more_names_than_its_limit(stack: ExitStack) -> None:
    evil = Evil(stack, pages)
    assert evil.stores.datasets(evil.url, limit=200) == []
    assert len(evil.server.seen) == 2


@pytest.mark.parametrize("status", ["200 OK", "404 Not Found", "500 Internal"])
def test_a_text_without_an_end_is_cut(stack: ExitStack, status: str) -> None:
    sent: list[int] = []

    def respond(server: LoopbackServer, _: Seen) -> Iterator[bytes]:
        yield f"HTTP/1.1 {status}\r\nContent-Type: application/xml\r\n\r\n<a>".encode()
        for piece in server.every(b"<b/>" * 16_384, pause_s=0, count=10_000):
            sent.append(len(piece))
            yield piece

    evil = Evil(stack, respond)
    with pytest.raises(Determinate, match="where a short text belongs"):
        evil.stores.datasets(evil.url, limit=5)
    assert sum(sent) < 3 * ANSWER_BYTES_MAX


@pytest.mark.parametrize("first", [b'ETag: "a"\r\nContent-Length: 69\r\n\r\n', b"X-Long: "], ids=["body", "header"])
def test_an_answer_that_drips_is_given_up(stack: ExitStack, first: bytes) -> None:
    def respond(server: LoopbackServer, _: Seen) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\n" + first
        yield from server.every(b"f", pause_s=0.05, count=400)

    evil = Evil(stack, respond)
    with pytest.raises(Determinate, match="slower than 1024 bytes per second"):
        evil.dataset.head()


def test_a_write_whose_answer_drips_may_have_happened(stack: ExitStack) -> None:
    def respond(server: LoopbackServer, _: Seen) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nX-Long: "
        yield from server.every(b"f", pause_s=0.05, count=400)

    evil = Evil(stack, respond)
    with pytest.raises(Indeterminate, match="slower than"):
        evil.stores.open(evil.url, writes=True).write_ref("refs/head", "f1620")


@pytest.mark.parametrize(
    "headers",
    [
        "Content-Length: 5",
        'ETag: "a"\r\nContent-Length: five',
        'ETag: "a"\r\nContent-Length: -5',
        'ETag: "a"\r\nContent-Length: ' + "9" * 5000,
        'ETag: "a"\r\nTransfer-Encoding: chunked',
        'ETag: "a"\r\nContent-Length: 1000000000000000000',
    ],
    ids=["no tag", "no number", "negative", "long number", "no length", "huge"],
)
def test_a_head_with_a_length_that_is_none(stack: ExitStack, headers: str) -> None:
    evil = Evil(stack, lambda *_: f"HTTP/1.1 200 OK\r\n{headers}\r\n\r\nf1620".encode())
    with pytest.raises((Determinate, CorruptedSource)):
        evil.dataset.head()


def test_a_head_of_any_length_is_not_read_before_it_is_replaced(stack: ExitStack) -> None:
    evil = Evil(stack, lambda *_: b'HTTP/1.1 200 OK\r\nETag: "a"\r\nContent-Length: 1000000000000000000\r\n\r\nf1620')
    with pytest.raises(LimitExceeded) as refused:
        evil.stores.open(evil.url, writes=True).replace_ref("refs/head", "f1620ab", expected="f1620")
    assert refused.value.limit == "ref_bytes_max"


@pytest.mark.parametrize("status", [301, 302, 307])
def test_a_redirect_is_not_followed_with_our_keys(stack: ExitStack, status: int) -> None:
    other = LoopbackServer(lambda _: reply(200, b"f1620"))
    stack.enter_context(other.serving())
    evil = Evil(stack, lambda *_: reply(status, b"", {"Location": other.url("/x"), "x-amz-bucket-region": "eu-west-1"}))
    with pytest.raises(Determinate):
        evil.dataset.head()
    assert other.seen == []
    assert "secret-of-ours" not in str([seen.headers for seen in evil.server.seen])
