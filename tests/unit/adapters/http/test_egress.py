"""The guarded client against servers that redirect, lie, dawdle and overflow.

All of them listen on loopback.
"""

from __future__ import annotations

import gzip
import socket
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.adapters.http.egress import Egress, EgressLimits, SizeLimit
from odfabric.errors import (
    AccessDenied,
    Determinate,
    Indeterminate,
    InvalidRequest,
    LimitExceeded,
    OdfError,
)
from tests.support.certificates import TestAuthority
from tests.support.loopback_http import LoopbackServer, Seen, reply
from tests.support.waiting import free_port

LIMIT = SizeLimit(name="source_bytes_max", bytes_max=1_000_000)
HASTY = EgressLimits(
    connect_s_max=1.0, answer_s_max=0.4, total_s_max=60.0, bytes_per_s_min=10_000, rate_window_s=0.3, redirects_max=3
)
CUT_S_MAX = 5.0
"""Far above every limit in HASTY, far below what the hostile servers would take."""

Respond = Callable[[Seen], bytes | Iterator[bytes]]
Serve = Callable[[Respond], LoopbackServer]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers that live as long as the test."""
    with ExitStack() as stack:
        yield lambda respond: stack.enter_context(LoopbackServer(respond).serving())


def got(egress: Egress, url: str, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    with egress.get(url, headers=headers, limit=LIMIT) as answer:
        assert answer.status == 200
        return answer.read()


def redirect_to(location: str, status: int = 302) -> bytes:
    return reply(status, b"over there", {"Location": location})


# redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_followed(serve: Serve, status: int) -> None:
    server = serve(lambda seen: redirect_to("/b", status) if seen.target == "/a" else reply(200, b"there"))
    with Egress(allow=[server.place]) as egress:
        assert got(egress, server.url("/a")) == b"there"
    assert [seen.method for seen in server.seen] == ["GET", "GET"]


PRIVATE_PLACES = [
    "http://127.0.0.1:{trap}/",
    "//127.0.0.1:{trap}/",
    "http://localhost:{trap}/",
    "http://[::1]:{trap}/",
    "http://[::ffff:127.0.0.1]:{trap}/",
    "http://2130706433:{trap}/",
    "http://0x7f.1:{trap}/",
    "http://0:{trap}/",
    "http://127.0.0.1:{trap}@{good}/",
    "http://169.254.169.254/latest/meta-data/",
    "http://10.0.0.1/",
    "http://[fe80::1]/",
    "file:///etc/passwd",
    "ftp://127.0.0.1:{trap}/",
]


@pytest.mark.parametrize("place", PRIVATE_PLACES)
@pytest.mark.parametrize("hops", [1, 3])
def test_redirects_to_inner_places_are_refused(serve: Serve, place: str, hops: int) -> None:
    trap = serve(lambda seen: reply(200, b"secret"))
    start = serve(
        lambda seen: redirect_to(
            f"/{int(seen.target[1:]) - 1}"
            if seen.target != "/1"
            else place.format(trap=trap.port, good=f"127.0.0.1:{start.port}")
        )
    )
    with Egress(allow=[start.place]) as egress, pytest.raises((AccessDenied, InvalidRequest)) as refused:
        got(egress, start.url(f"/{hops}"))
    assert trap.connections == 0
    assert start.url("/1") in str(refused.value), "who redirects"
    assert refused.value.hint, "what to do"
    assert "secret" not in str(refused.value)
    assert len(start.seen) == hops


def test_redirects_end_at_their_limit(serve: Serve) -> None:
    server = serve(
        lambda seen: redirect_to(f"/{int(seen.target[1:]) + 1}") if seen.target != "/3" else reply(200, b"ok")
    )
    with Egress(limits=HASTY, allow=[server.place]) as egress:
        assert got(egress, server.url("/0")) == b"ok"
        with pytest.raises(LimitExceeded, match="redirects_max") as refused:
            got(egress, server.url("/-1"))
    assert refused.value.maximum == 3
    assert len(server.seen) == 4 + 4


def test_redirect_loops_end(serve: Serve) -> None:
    server = serve(lambda seen: redirect_to(seen.target))
    with Egress(allow=[server.place]) as egress, pytest.raises(LimitExceeded):
        got(egress, server.url("/loop"))
    assert len(server.seen) == 11


def test_a_redirect_without_a_location_is_an_answer(serve: Serve) -> None:
    server = serve(lambda seen: reply(302))
    with Egress(allow=[server.place]) as egress, egress.get(server.url(), limit=LIMIT) as answer:
        assert answer.status == 302


# what is sent where


def test_headers_of_the_caller_stay_with_their_origin(serve: Serve) -> None:
    """Caller headers stay with their origin: what was dropped stays dropped.

    First within the origin, then to another one and back.
    """
    other = serve(lambda seen: redirect_to(home.url("/back")))
    home = serve(
        lambda seen: {"/a": redirect_to("/b"), "/b": redirect_to(other.url("/x")), "/back": reply(200, b"done")}[
            seen.target
        ]
    )
    private = [("Authorization", "Bearer token"), ("Cookie", "id=1"), ("X-Api-Key", "key"), ("User-Agent", "mine")]
    with Egress(allow=[home.place, other.place]) as egress:
        assert got(egress, home.url("/a"), private) == b"done"
    first, second, back = home.seen
    assert all({"authorization", "cookie", "x-api-key"} <= seen.headers.keys() for seen in (first, second))
    for seen in (*other.seen, back):
        assert not {"authorization", "cookie", "x-api-key"} & seen.headers.keys()
        assert "mine" not in seen.headers.values()
    assert other.seen[0].headers["host"] == other.place


def test_conditions_go_to_every_hop(serve: Serve) -> None:
    other = serve(lambda seen: b"HTTP/1.1 304 Known\r\n\r\n")
    home = serve(lambda seen: redirect_to(other.url("/x")))
    conditions = [("If-None-Match", '"v1"')]
    with (
        Egress(allow=[home.place, other.place]) as egress,
        egress.get(home.url("/a"), conditions=conditions, limit=LIMIT) as answer,
    ):
        assert answer.status == 304
    assert [seen.headers["if-none-match"] for seen in (*home.seen, *other.seen)] == ['"v1"', '"v1"']


def test_nothing_ambient_is_used(serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    proxy = serve(lambda seen: reply(200, b"from the proxy"))
    server = serve(lambda seen: reply(200, b"direct", {"Set-Cookie": "id=1; Path=/"}))
    for name in ("HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url())
    (tmp_path / ".netrc").write_text("machine 127.0.0.1 login me password secret\n")
    (tmp_path / ".netrc").chmod(0o600)
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    monkeypatch.setenv("HOME", str(tmp_path))
    with Egress(allow=[server.place]) as egress:
        assert [got(egress, server.url()) for _ in range(2)] == [b"direct", b"direct"]
    assert proxy.connections == 0
    for seen in server.seen:
        assert seen.headers == {
            "host": server.place,
            "accept-encoding": "gzip",
            "user-agent": "odfabric",
            "accept": "*/*",
        }


@pytest.mark.parametrize(
    "header", ["Host", "content-LENGTH", "Transfer-Encoding", "Proxy-Authorization", "Range", "Connection"]
)
def test_headers_that_are_not_the_callers_are_refused(header: str) -> None:
    with Egress() as egress, pytest.raises(InvalidRequest, match=f"(?i){header}"):
        got(egress, "http://example.com/", [(header, "x")])


@pytest.mark.parametrize(
    "header",
    [("", "x"), ("a b", "x"), ("a:", "x"), ("a\n", "x"), ("é", "x"), ("a", "x\r\nHost: y"), ("a", "\0"), ("a", "漢")],
)
def test_malformed_headers_are_refused(header: tuple[str, str]) -> None:
    with Egress() as egress, pytest.raises(InvalidRequest):
        got(egress, "http://example.com/", [header])


def test_headers_have_a_limit() -> None:
    with Egress() as egress, pytest.raises(InvalidRequest, match="too many"):
        got(egress, "http://example.com/", [("a", "x" * 20_000)])
    with Egress() as egress, pytest.raises(InvalidRequest, match="too many"):
        got(egress, "http://example.com/", [("a", "x")] * 101)


# the address that was checked is the one that is connected to


class Answers:
    """A resolver with another answer each time."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def __call__(self, host: str) -> Sequence[str]:
        self.asked += 1
        return self.answers[min(self.asked, len(self.answers)) - 1]


def test_a_second_answer_of_the_resolver_cannot_matter(serve: Serve) -> None:
    """DNS rebinding: no look-up between check and connection.

    A new connection is checked by itself.
    """
    server = serve(lambda seen: redirect_to("/again") if seen.target == "/once" else reply(200, b"good"))
    with LoopbackServer(lambda seen: reply(200, b"secret"), host="127.0.0.2", port=server.port).serving() as trap:
        for target, outcome in (("/", b"good"), ("/once", AccessDenied)):
            resolver = Answers(["127.0.0.1"], ["127.0.0.2"])
            with Egress(allow=["127.0.0.1/32"], resolver=resolver) as egress:
                url = f"http://rebind.example:{server.port}{target}"
                if isinstance(outcome, bytes):
                    assert got(egress, url) == outcome
                    assert resolver.asked == 1
                else:
                    with pytest.raises(outcome):
                        got(egress, url)
                    assert resolver.asked == 2
        assert trap.connections == 0
    assert {seen.headers["host"] for seen in server.seen} == {f"rebind.example:{server.port}"}


def test_checked_addresses_are_tried_in_order(serve: Serve) -> None:
    server = serve(lambda seen: reply(200, b"good"))
    tried: list[str] = []

    def connector(address: tuple[str, int], seconds_max: float) -> socket.socket:
        tried.append(address[0])
        assert address[1] == 80
        if address[0] != "1.1.1.1":
            raise ConnectionRefusedError
        return socket.create_connection(("127.0.0.1", server.port), seconds_max)

    addresses = ["2606:4700::1111", "8.8.8.8", "1.1.1.1", "9.9.9.9"]
    with Egress(resolver=lambda host: addresses, connector=connector) as egress:
        assert got(egress, "http://data.example/x") == b"good"
    assert tried == addresses[:3]
    assert server.seen[0].headers["host"] == "data.example"


def test_connections_are_used_again_and_private_ones_are_not_shared_by_name(serve: Serve) -> None:
    server = serve(lambda seen: reply(200, b"good"))
    with Egress(allow=["127.0.0.0/8"], resolver=lambda host: ["127.0.0.1"]) as egress:
        for _ in range(3):
            got(egress, f"http://a.example:{server.port}/")
        assert server.connections == 1
        got(egress, f"http://b.example:{server.port}/")
        assert server.connections == 2


# TLS


def test_tls_checks_the_name_and_sends_it(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    context = authority.server_context("data.example")
    asked: list[str | None] = []
    context.set_servername_callback(lambda _, name, __: asked.append(name))
    server = LoopbackServer(lambda seen: reply(200, b"sealed"), ssl_context=context)
    with server.serving(), ExitStack() as stack:

        def client(context_of: TestAuthority | None) -> Egress:
            trust = context_of.client_context() if context_of else None
            egress = Egress(allow=["127.0.0.0/8"], resolver=lambda host: ["127.0.0.1"], ssl_context=trust)
            return stack.enter_context(egress)

        assert got(client(authority), f"https://data.example:{server.port}/") == b"sealed"
        for egress, host in ((client(authority), "other.example"), (client(None), "data.example")):
            with pytest.raises(Determinate, match="certificate"):
                got(egress, f"https://{host}:{server.port}/")
    assert asked == ["data.example", "other.example", "data.example"]
    assert [seen.headers["host"] for seen in server.seen] == [f"data.example:{server.port}"]


def test_a_redirect_may_not_take_the_protection_away(tmp_path: Path, serve: Serve) -> None:
    authority = TestAuthority(tmp_path)
    plain = serve(lambda seen: reply(200, b"open"))
    sealed = LoopbackServer(lambda seen: redirect_to(plain.url()), ssl_context=authority.server_context("data.example"))
    with (
        sealed.serving(),
        Egress(
            allow=["127.0.0.0/8"], resolver=lambda host: ["127.0.0.1"], ssl_context=authority.client_context()
        ) as egress,
        pytest.raises(AccessDenied, match="https to http"),
    ):
        got(egress, f"https://data.example:{sealed.port}/")
    assert plain.connections == 0


def test_a_cut_tls_connection_is_not_the_end_of_a_body(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    context = authority.server_context("data.example")
    # No length and no goodbye: anyone who cuts the line could otherwise cut the data.
    server = LoopbackServer(lambda seen: iter([b"HTTP/1.1 200 OK\r\n\r\nhalf of it"]), ssl_context=context)
    with (
        server.serving(),
        Egress(
            allow=["127.0.0.0/8"], resolver=lambda host: ["127.0.0.1"], ssl_context=authority.client_context()
        ) as egress,
        pytest.raises(Determinate, match="broke off"),
    ):
        got(egress, f"https://data.example:{server.port}/")


# deadlines and rates


def endless(server: LoopbackServer, head: bytes, piece: bytes, pause_s: float) -> Iterator[bytes]:
    yield head
    yield from server.every(piece, pause_s=pause_s, count=100_000)


DAWDLERS = {
    "no answer at all": (b"", b"", 1.0),
    "a status line byte by byte": (b"HTTP/1.1 2", b"0", 0.1),
    "headers without end": (b"HTTP/1.1 200 OK\r\n", b"X-More: x\r\n", 0.1),
    "interim answers without end": (b"", b"HTTP/1.1 103 Early Hints\r\nLink: <x>\r\n\r\n", 0.05),
    "a body byte by byte": (b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n", b"x", 0.05),
    "a body that stops": (b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\nxxx", b"", 1.0),
    "chunks byte by byte": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n", 0.05),
}


@pytest.mark.parametrize("name", DAWDLERS)
def test_who_dawdles_is_cut(serve: Serve, name: str) -> None:
    head, piece, pause_s = DAWDLERS[name]
    server: LoopbackServer = serve(lambda seen: endless(server, head, piece, pause_s))
    with Egress(limits=HASTY, allow=[server.place]) as egress:
        started = time.monotonic()
        with pytest.raises(Determinate):
            got(egress, server.url())
        assert time.monotonic() - started < CUT_S_MAX


def test_a_stream_that_is_fast_enough_ends_at_the_deadline_for_the_whole(serve: Serve) -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 900000\r\n\r\n"
    server: LoopbackServer = serve(lambda seen: endless(server, head, b"x" * 1000, 0.05))
    with Egress(limits=replace(HASTY, total_s_max=1.0), allow=[server.place]) as egress:
        started = time.monotonic()
        with pytest.raises(Determinate):
            got(egress, server.url())
        assert 0.9 < time.monotonic() - started < CUT_S_MAX


def test_a_handshake_that_dawdles_is_cut() -> None:
    """The server takes the connection and then says TLS nothings, a byte at a time."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = f"127.0.0.1:{listener.getsockname()[1]}"

        def dawdle() -> None:
            connection, _ = listener.accept()
            with connection:
                for byte in b"\x16\x03\x03\x40\x00\x02\x00\x3f\xfc\x03\x03" + bytes(400):
                    try:
                        connection.send(bytes([byte]))
                    except OSError:
                        return
                    if over.wait(0.1):
                        return

        dawdling = threading.Thread(target=dawdle)
        dawdling.start()
        with Egress(limits=HASTY, allow=[place]) as egress:
            started = time.monotonic()
            with pytest.raises(Determinate, match="TLS handshake"):
                got(egress, f"https://{place}/")
            assert time.monotonic() - started < CUT_S_MAX
        over.set()
        dawdling.join(CUT_S_MAX)


def test_a_connection_that_is_never_accepted_is_cut() -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener:
        place = listener.getsockname()
        with ExitStack() as stack:
            for _ in range(8):  # until the queue of the listener is full
                filler = stack.enter_context(socket.socket())
                filler.setblocking(False)
                filler.connect_ex(place)
            with Egress(limits=HASTY, allow=[f"127.0.0.1:{place[1]}"]) as egress:
                started = time.monotonic()
                with pytest.raises(Determinate):
                    got(egress, f"http://127.0.0.1:{place[1]}/")
                assert time.monotonic() - started < CUT_S_MAX


def test_who_reads_slowly_cannot_hold_a_sender() -> None:
    """A slow reader cannot hold a sender: sending ends at the deadline.

    The receiver opens a small window and reads nothing.
    """
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        place = f"127.0.0.1:{listener.getsockname()[1]}"
        with Egress(limits=HASTY, allow=[place]) as egress:
            started = time.monotonic()
            with pytest.raises(Indeterminate):
                egress.post(f"http://{place}/", headers={}, body=bytes(50_000_000), total_s_max=0.5)
            assert time.monotonic() - started < CUT_S_MAX


PATIENT = replace(HASTY, answer_s_max=20.0)


def test_a_slow_start_and_a_steady_stream_are_fine(serve: Serve) -> None:
    server: LoopbackServer = serve(lambda seen: steady(server))
    with Egress(limits=PATIENT, allow=[server.place]) as egress:
        assert got(egress, server.url()) == b"x" * 100_000


def steady(server: LoopbackServer) -> Iterator[bytes]:
    server.stopping.wait(2 * HASTY.rate_window_s)
    yield b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
    yield from server.every(b"x" * 10_000, pause_s=0.05, count=10)


def test_each_answer_on_one_connection_may_start_slowly(serve: Serve) -> None:
    def respond(seen: Seen) -> bytes:
        server.stopping.wait(2 * HASTY.rate_window_s)
        return reply(200, b"good")

    server = serve(respond)
    with Egress(limits=PATIENT, allow=[server.place]) as egress:
        assert [got(egress, server.url()) for _ in range(2)] == [b"good"] * 2
    assert server.connections == 1


# sizes


def chunked_gzip(pieces: Iterator[bytes]) -> Iterator[bytes]:
    return chunked(pieces, b"Content-Encoding: gzip\r\n")


def chunked(pieces: Iterator[bytes], more_headers: bytes = b"") -> Iterator[bytes]:
    yield b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n" + more_headers + b"\r\n"
    for piece in pieces:
        yield b"%x\r\n%s\r\n" % (len(piece), piece)


def bomb(size_mib: int) -> bytes:
    packer = zlib.compressobj(9, wbits=31)
    return b"".join(packer.compress(bytes(1024 * 1024)) for _ in range(size_mib)) + packer.flush()


def too_large(server: LoopbackServer) -> dict[str, Callable[[], bytes | Iterator[bytes]]]:
    coded = {"Content-Encoding": "gzip"}
    return {
        "declared": lambda: reply(200, bytes(LIMIT.bytes_max + 1)),
        "without end": lambda: chunked(server.every(bytes(60_000), pause_s=0.0, count=10_000)),
        "until the connection closes": lambda: endless(server, b"HTTP/1.1 200 OK\r\n\r\n", bytes(60_000), 0.0),
        "unpacked": lambda: reply(200, bomb(100), coded),
        "many times nothing": lambda: chunked_gzip(server.every(gzip.compress(b"") * 3000, pause_s=0.0, count=10_000)),
        "packed": lambda: reply(200, gzip.compress(bytes(range(256)) * 8000, 0), coded),
    }


@pytest.mark.parametrize(
    "name", ["declared", "without end", "until the connection closes", "unpacked", "packed", "many times nothing"]
)
def test_what_is_too_large_is_cut(serve: Serve, name: str) -> None:
    server: LoopbackServer = serve(lambda seen: too_large(server)[name]())
    with Egress(allow=[server.place]) as egress:
        taken: list[int] = []
        with egress.get(server.url(), limit=LIMIT) as answer, pytest.raises(LimitExceeded) as refused:
            taken.extend(len(piece) for piece in answer.body())
        assert sum(taken) <= LIMIT.bytes_max
        assert (refused.value.limit, refused.value.maximum) == (LIMIT.name, LIMIT.bytes_max)


def test_content_is_unpacked(serve: Serve) -> None:
    server = serve(lambda seen: reply(200, gzip.compress(b"rows"), {"Content-Encoding": "gzip"}))
    with Egress(allow=[server.place]) as egress:
        assert got(egress, server.url()) == b"rows"


BROKEN = {
    "nothing": b"",
    "not http": b"SSH-2.0-OpenSSH_9.6\r\n",
    "half of a status line": b"HTTP/1.1 20",
    "half of the headers": b"HTTP/1.1 200 OK\r\nContent-",
    "less than declared": b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf",
    "chunks without end": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    "a chunk of no size": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nhalf",
    "a length that is none": b"HTTP/1.1 200 OK\r\nContent-Length: -3\r\n\r\nhalf",
    "a length without end": b"HTTP/1.1 200 OK\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nhalf",
    "another transfer coding": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "an unasked coding": reply(200, b"half", {"Content-Encoding": "br"}),
    "gzip that is none": reply(200, b"half", {"Content-Encoding": "gzip"}),
    "gzip that is cut": reply(200, gzip.compress(b"half" * 9)[:-3], {"Content-Encoding": "gzip"}),
    "gzip in layers": reply(200, gzip.compress(gzip.compress(b"half")), {"Content-Encoding": "gzip, gzip"}),
    "an unasked upgrade": b"HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "a header without end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 200_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_answers_are_failures(serve: Serve, name: str) -> None:
    server = serve(lambda seen: iter([BROKEN[name]]))
    with Egress(limits=HASTY, allow=[server.place]) as egress, pytest.raises(Determinate):
        got(egress, server.url())


def test_failures_leave_no_connection_behind(serve: Serve) -> None:
    """One connection is all there is; after every kind of failure it is free again."""
    server: LoopbackServer = serve(
        lambda seen: (
            iter([BROKEN[seen.target[1:].replace("_", " ")]]) if seen.target != "/good" else reply(200, b"good")
        )
    )
    limits = EgressLimits(connections_max=1, connect_s_max=1.0, answer_s_max=1.0)
    with Egress(limits=limits, allow=[server.place]) as egress:
        for name in BROKEN:
            with pytest.raises(OdfError):
                got(egress, server.url("/" + name.replace(" ", "_")))
            assert got(egress, server.url("/good")) == b"good"
        for url in ("http://10.0.0.1/", "http://user@host/", f"http://127.0.0.1:{free_port()}/"):
            with pytest.raises(OdfError):
                got(egress, url)
        assert got(egress, server.url("/good")) == b"good"


# sending


def test_a_post_that_was_not_sent_is_known_not_to_have_happened() -> None:
    with Egress(allow=["127.0.0.0/8"]) as egress:
        for url in (f"http://127.0.0.1:{free_port()}/", f"http://unknown.invalid:{free_port()}/"):
            with pytest.raises(Determinate):
                egress.post(url, headers={}, body=b"x", total_s_max=5.0)


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 2", b"garbage\r\n\r\n"])
def test_a_post_without_an_answer_may_have_happened(serve: Serve, answer: bytes) -> None:
    server = serve(lambda seen: iter([answer]))
    with Egress(allow=[server.place]) as egress, pytest.raises(Indeterminate):
        egress.post(server.url(), headers={}, body=b"x", total_s_max=5.0)
    assert [seen.body for seen in server.seen] == [b"x"]


def test_a_post_is_not_redirected_and_its_answer_not_read(serve: Serve) -> None:
    trap = serve(lambda seen: reply(200))
    server: LoopbackServer = serve(
        lambda seen: endless(server, f"HTTP/1.1 302 Found\r\nLocation: {trap.url()}\r\n\r\n".encode(), b"x", 0.1)
    )
    with Egress(allow=[server.place, trap.place]) as egress:
        started = time.monotonic()
        assert egress.post(server.url(), headers={}, body=b"x", total_s_max=5.0).status == 302
        assert time.monotonic() - started < 4.0
    assert trap.connections == 0
    assert server.seen[0].headers["connection"] == "close"


def test_urls_are_checked_before_anything_is_sent() -> None:
    with Egress() as egress:
        assert egress.check("https://data.example/x?y").host == "data.example"
        for url in ("http://127.0.0.1/", "http://data.example:22/", "https://[::1]/"):
            with pytest.raises(AccessDenied):
                egress.check(url)
            with pytest.raises(AccessDenied):
                egress.post(url, headers={}, body=b"x", total_s_max=1.0)
