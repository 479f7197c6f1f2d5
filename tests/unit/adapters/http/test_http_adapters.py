"""Sources, webhooks and peers over HTTP: what their contract suite does not see."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from odfabric.adapters.http.egress import Egress, EgressLimits
from odfabric.adapters.http.fetch import HttpFetch
from odfabric.adapters.http.remote_dataset import HttpRemoteDatasets
from odfabric.adapters.http.webhook import HttpWebhookSender
from odfabric.errors import (
    AccessDenied,
    CorruptedSource,
    Determinate,
    External,
    InvalidName,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    OdfError,
    Unauthenticated,
)
from odfabric.model.multihash import SHA2_256, SHA3_256, Multihash
from odfabric.model.subscriptions.subscription import RESPONSE_BYTES_MAX
from tests.support.certificates import TestAuthority
from tests.support.loopback_http import LoopbackServer, Seen, reply

BLOCK = Multihash(SHA3_256, bytes(range(32)))
TOKEN = "ka_0123456789"


def fetch(server: LoopbackServer, into: Path, *, etag: str | None = None, allow: str = "127.0.0.0/8") -> int:
    limits = EgressLimits(answer_s_max=1.0, rate_window_s=0.3, total_s_max=2.0)
    with Egress(limits=limits, allow=[allow]) as egress:
        source = HttpFetch(egress, source_bytes_max=100_000)
        return source.fetch(server.url("/a?key=secret"), headers=[], etag=etag, last_modified=None, into=into).status


@pytest.mark.parametrize(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
        reply(200, b"half", {"Content-Encoding": "gzip"}),
        b"",
    ],
)
def test_a_source_that_breaks_leaves_no_file(tmp_path: Path, answer: bytes) -> None:
    with LoopbackServer(lambda seen: iter([answer])).serving() as server, pytest.raises(Determinate) as failed:
        fetch(server, tmp_path / "a")
    assert list(tmp_path.iterdir()) == []
    assert "secret" not in str(failed.value)


def test_a_failed_status_is_told_with_the_beginning_of_its_body(tmp_path: Path) -> None:
    body = "wait a bit\r\n\x1b[31m pleasé ".encode() + b"\xff" + b"x" * 100_000
    with LoopbackServer(lambda seen: reply(503, body)).serving() as server, pytest.raises(Determinate) as failed:
        fetch(server, tmp_path / "a")
    assert failed.value.message.startswith(
        f"{server.url('/a')}: HTTP request failed with status code 503, message: wait a bit [31m pleasé \ufffdxxx"
    )
    assert len(failed.value.message) < 400


@pytest.mark.parametrize("body", [bytes(200_000), b"\xff" * 10])
def test_a_body_that_cannot_be_read_does_not_hide_the_status(tmp_path: Path, body: bytes) -> None:
    answer = reply(500, body, {"Content-Encoding": "gzip"})
    with LoopbackServer(lambda seen: answer).serving() as server, pytest.raises(Determinate, match=r"500$"):
        fetch(server, tmp_path / "a")


def test_not_modified_without_a_question_is_a_failure(tmp_path: Path) -> None:
    with LoopbackServer(lambda seen: b"HTTP/1.1 304 Known\r\n\r\n").serving() as server:
        assert fetch(server, tmp_path / "a", etag='"v1"') == 304
        with pytest.raises(Determinate, match="304"):
            fetch(server, tmp_path / "a")


@pytest.mark.parametrize(
    "location",
    ["http://user:secret@data.example/", "file:///secret", "http://256.1/secret", "http://a:0/secret", "\x01secret"],
)
def test_a_redirect_that_is_refused_is_final_and_told_without_its_secrets(tmp_path: Path, location: str) -> None:
    answer = reply(302, b"", {"Location": location})
    with LoopbackServer(lambda seen: answer).serving() as server, pytest.raises(InvalidRequest) as refused:
        fetch(server, tmp_path / "a")
    assert refused.value.message.startswith(f"{server.url('/a')} redirects to a URL that is refused: ")
    assert refused.value.hint == "give the URL of the data itself"
    assert "secret" not in str(refused.value)
    assert len(server.seen) == 1


def test_the_entity_tag_is_asked_about_and_else_the_date(tmp_path: Path) -> None:
    date = "Wed, 21 Oct 2015 07:28:00 GMT"
    with (
        LoopbackServer(lambda seen: reply(200)).serving() as server,
        Egress(allow=[server.place]) as egress,
    ):
        source = HttpFetch(egress, source_bytes_max=10)
        for number, (etag, last_modified) in enumerate([('"v1"', date), (None, date), (None, None)]):
            into = tmp_path / str(number)
            source.fetch(server.url(), headers=[], etag=etag, last_modified=last_modified, into=into)
    asked = [{name: text for name, text in seen.headers.items() if name.startswith("if-")} for seen in server.seen]
    assert asked == [{"if-none-match": '"v1"'}, {"if-modified-since": date}, {}]


def test_loopback_is_refused_without_an_exception(tmp_path: Path) -> None:
    with LoopbackServer(lambda seen: reply(200)).serving() as server:
        with pytest.raises(AccessDenied):
            fetch(server, tmp_path / "a", allow="10.0.0.0/8")
        assert server.connections == 0


def test_a_file_that_cannot_be_written_is_a_failure(tmp_path: Path) -> None:
    with LoopbackServer(lambda seen: reply(200, b"rows")).serving() as server:
        with pytest.raises(Determinate, match="cannot be written"):
            fetch(server, tmp_path / "missing" / "a")
        (tmp_path / "a").write_bytes(b"mine")
        with pytest.raises(Determinate, match="cannot be written"):
            fetch(server, tmp_path / "a")
    assert (tmp_path / "a").read_bytes() == b"mine"


# webhooks


def retry_after(headers: dict[str, str]) -> int | None:
    with (
        LoopbackServer(lambda seen: reply(503, b"", headers)).serving() as server,
        Egress(allow=[server.place]) as egress,
    ):
        return HttpWebhookSender(egress, timeout_s=5.0).post(server.url(), headers={}, body=b"").retry_after_s


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (b"x" * 100_000, "x" * RESPONSE_BYTES_MAX),
        (b"caf\xc3\xa9 \xff \x00.", "caf\u00e9 \ufffd \ufffd."),
    ],
)
def test_the_beginning_of_an_answer_is_kept_as_text(sent: bytes, kept: str) -> None:
    with LoopbackServer(lambda _: reply(500, sent)).serving() as server, Egress(allow=[server.place]) as egress:
        answer = HttpWebhookSender(egress, timeout_s=5.0).post(server.url(), headers={}, body=b"")
    assert (answer.status, answer.excerpt) == (500, kept)


def test_an_answer_without_an_end_is_an_answer() -> None:
    head = b"HTTP/1.1 200 OK\r\n\r\nbegun"
    server = LoopbackServer(lambda _: endless(head))

    def endless(first: bytes) -> Iterator[bytes]:
        yield first
        server.stopping.wait(10)

    with server.serving(), Egress(allow=[server.place]) as egress:
        answer = HttpWebhookSender(egress, timeout_s=8.0).post(server.url(), headers={}, body=b"")
        assert (answer.status, answer.excerpt) == (200, "begun")
        server.stopping.set()


def stage_of(url: str, **egress: Any) -> str | None:
    """How far an attempt got that failed."""
    with Egress(allow=["127.0.0.0/8"], **egress) as made, pytest.raises(External) as failed:
        HttpWebhookSender(made, timeout_s=0.5).post(url, headers={}, body=b"")
    return failed.value.stage


def test_a_failed_attempt_says_how_far_it_got(tmp_path: Path) -> None:
    def unknown(_: str) -> list[str]:
        raise OSError

    assert stage_of("http://nowhere.test/", resolver=unknown) == "dns"
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        assert stage_of(f"http://127.0.0.1:{closed.getsockname()[1]}/") == "connect"
    context = TestAuthority(tmp_path).server_context("data.example")
    with LoopbackServer(lambda _: reply(204), ssl_context=context).serving() as server:
        assert stage_of(server.url()) == "tls"
    with LoopbackServer(lambda _: iter([b"half an answer"])).serving() as server:
        assert stage_of(server.url()) == "answer"
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert stage_of(f"http://127.0.0.1:{silent.getsockname()[1]}/") == "time"


NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("120", 120),
        (" 7 ", 7),
        ("2678400", 2678400),
        ("2678401", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("", None),
        ("9" * 5000, None),
        ("٣", None),
        (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90),
        (format_datetime(NOW - timedelta(seconds=90), usegmt=True), None),
        ("Mon, 99 Foo 2026 12:00:00 GMT", None),
    ],
)
def test_retry_after_is_read_if_sensible(text: str, seconds: int | None) -> None:
    if not text.isascii():
        text = text.encode().decode("latin-1")
    assert retry_after({"Retry-After": text, "Date": format_datetime(NOW, usegmt=True)}) == seconds


def test_retry_after_as_a_date_without_the_receivers_clock_is_taken_by_ours() -> None:
    in_an_hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    seconds = retry_after({"Retry-After": in_an_hour})
    assert seconds is not None
    assert 3500 <= seconds <= 3600


# peers


@pytest.fixture
def servers() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def remotes() -> Iterator[HttpRemoteDatasets]:
    with Egress(allow=["127.0.0.0/8"]) as egress:
        yield HttpRemoteDatasets(egress, block_bytes_max=1000)


def test_a_token_reaches_its_origin_only(servers: ExitStack, remotes: HttpRemoteDatasets, tmp_path: Path) -> None:
    storage = servers.enter_context(LoopbackServer(lambda seen: reply(200, b"bytes")).serving())

    def respond(seen: Seen) -> bytes:
        if seen.target.startswith("/ds/data/"):
            return reply(307, b"", {"Location": storage.url("/presigned")})
        return reply(200, str(BLOCK).encode())

    node = servers.enter_context(LoopbackServer(respond).serving())
    remote = remotes.open(f"ODF+{node.url('/ds')}", token=TOKEN)
    assert remote.head() == BLOCK
    assert remote.download("data", BLOCK, size_max=10, into=tmp_path / "a") == 5
    assert [seen.headers["authorization"] for seen in node.seen] == [f"Bearer {TOKEN}"] * 2
    assert [seen.target for seen in node.seen] == ["/ds/refs/head", f"/ds/data/{BLOCK}"]
    assert [set(seen.headers) & {"authorization"} for seen in storage.seen] == [set()]


@pytest.mark.parametrize("path", ["/", "", "/account/ds", "/account/ds/", "/account/ds//"])
def test_paths_are_relative_to_the_dataset(servers: ExitStack, remotes: HttpRemoteDatasets, path: str) -> None:
    node = servers.enter_context(LoopbackServer(lambda seen: reply(200, str(BLOCK).encode())).serving())
    assert remotes.open(node.url(path)).head() == BLOCK
    assert [seen.target for seen in node.seen] == [f"{path.rstrip('/')}/refs/head"]


@pytest.mark.parametrize(
    "url",
    ["odf+file:///data", "odf+odf+http://host/ds", "http://host/ds?x=1", "odf+http://me@host/ds", "odf+", "http://"],
)
def test_urls_that_name_no_dataset_are_refused(remotes: HttpRemoteDatasets, url: str) -> None:
    with pytest.raises(InvalidRequest):
        remotes.open(url)


@pytest.mark.parametrize("token", ["", "a b", "a\r\nHost: x", "é", "x" * 10_000])
def test_malformed_tokens_are_refused_without_being_shown(remotes: HttpRemoteDatasets, token: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        remotes.open("http://data.example/ds", token=token)
    assert str(refused.value) == "field token: not a bearer token"


def test_inner_peers_are_refused() -> None:
    with Egress() as egress, pytest.raises(AccessDenied):
        HttpRemoteDatasets(egress, block_bytes_max=1000).open("odf+http://127.0.0.1/ds")


PEERS_FAILURES: dict[int, type[OdfError]] = {
    **dict.fromkeys((204, 206, 304, 408, 425, 429, 500, 503), Determinate),
    **dict.fromkeys((300, 400, 402, 405, 406, 409, 418, 451), InvalidRequest),
    401: Unauthenticated,
    403: AccessDenied,
    404: NotFound,
    410: NotFound,
}


@pytest.mark.parametrize(("status", "leaf"), PEERS_FAILURES.items())
def test_other_statuses_are_failures(
    servers: ExitStack, remotes: HttpRemoteDatasets, status: int, leaf: type[OdfError]
) -> None:
    answer = f"HTTP/1.1 {status} No\r\nRetry-After: 7\r\n\r\n".encode()
    node = servers.enter_context(LoopbackServer(lambda seen: iter([answer])).serving())
    with pytest.raises(leaf) as failed:
        remotes.open(node.url("/ds")).head()
    assert type(failed.value) is leaf
    assert node.url("/ds") in str(failed.value)
    if isinstance(failed.value, Determinate):
        assert str(status) in str(failed.value)
        assert failed.value.retry_after_s == 7


def test_only_objects_are_asked_for(remotes: HttpRemoteDatasets, tmp_path: Path) -> None:
    remote = remotes.open("http://data.example/ds")
    for folder in ("info", "refs", "../secret", ""):
        with pytest.raises(InvalidName):
            remote.download(folder, BLOCK, size_max=10, into=tmp_path / "a")
    with pytest.raises(InvalidName):
        remote.block(Multihash(SHA2_256, bytes(32)))


def test_a_head_of_any_size_is_refused(servers: ExitStack, remotes: HttpRemoteDatasets) -> None:
    node = servers.enter_context(LoopbackServer(lambda seen: reply(200, b"f" * int(seen.target[1:4]))).serving())
    for size, error in ((150, CorruptedSource), (201, LimitExceeded)):
        with pytest.raises(error):
            remotes.open(node.url(f"/{size}")).head()


def test_a_missing_dataset_is_named_without_its_secrets(servers: ExitStack, remotes: HttpRemoteDatasets) -> None:
    node = servers.enter_context(LoopbackServer(lambda seen: reply(404)).serving())
    with pytest.raises(NotFound) as missing:
        remotes.open(node.url("/ds"), token=TOKEN).head()
    assert (missing.value.what, missing.value.name) == ("dataset", node.url("/ds"))
