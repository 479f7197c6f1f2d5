"""The one rule of framing, on bytes alone."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric_api.connection import StrictConnection, answer_bytes
from odfabric_api.request_head import HeadLimits, Refused, check_head, find_head

LIMITS = HeadLimits(header_bytes_max=2048, header_line_bytes_max=512)


def refusal(head: bytes, limits: HeadLimits = LIMITS) -> Refused | None:
    try:
        end = find_head(head, limits)
        assert end is not None
        check_head(head[:end], limits)
    except Refused as error:
        return error
    return None


def head(*lines: str, request_line: str = "POST /query HTTP/1.1", host: str = "Host: node") -> bytes:
    return ("\r\n".join([request_line, host, *lines]) + "\r\n\r\n").encode("latin-1")


@pytest.mark.parametrize(
    "given_head",
    [
        head(),
        head("Content-Length: 5"),
        head("content-length:5"),
        head("Transfer-Encoding: chunked"),
        head("TRANSFER-ENCODING: Chunked"),
        head("Expect: 100-continue"),
        head("X-Empty:", "X-Tab:\ta\tb \t"),
        head("X-Latin: \xe9"),
        head("Accept: a", "Accept: b"),
        head(request_line="GET /a%20b?q=%C3%A9&x=a+b HTTP/1.1"),
        head(request_line="GET / HTTP/1.0"),
        head("Connection: Upgrade", "Upgrade: h2c"),
        b"GET / HTTP/1.0\r\n\r\n",
        head(host="Host: [::1]:8080"),
    ],
)
def test_what_clients_send_is_a_head(given_head: bytes) -> None:
    assert refusal(given_head) is None


@pytest.mark.parametrize(
    ("given_head", "code"),
    [
        (head("Content-Length: 5", "Transfer-Encoding: chunked"), "ambiguous-request"),
        (head("Transfer-Encoding: chunked", "Content-Length: 5"), "ambiguous-request"),
        (head("Content-Length: 5", "Content-Length: 6"), "ambiguous-request"),
        (head("Content-Length: 5", "Content-Length: 5"), "ambiguous-request"),
        (head("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"), "ambiguous-request"),
        (head("Host: other"), "ambiguous-request"),
        (head("Authorization: Bearer a", "authorization: Bearer b"), "ambiguous-request"),
        (head("Idempotency-Key: a", "Idempotency-Key: b"), "ambiguous-request"),
        (head("Content-Type: text/csv", "Content-Type: application/json"), "ambiguous-request"),
        (head("If-Match: a", "If-Match: b"), "ambiguous-request"),
        (head("Content-Length: 5, 5"), "malformed-request"),
        (head("Content-Length: +5"), "malformed-request"),
        (head("Content-Length: 0x5"), "malformed-request"),
        (head("Content-Length: 05"), "malformed-request"),
        (head("Content-Length: -1"), "malformed-request"),
        (head("Content-Length:"), "malformed-request"),
        (head("Content-Length: 99999999999999999999"), "malformed-request"),
        (head("Transfer-Encoding: identity"), "malformed-request"),
        (head("Transfer-Encoding: gzip, chunked"), "malformed-request"),
        (head("Transfer-Encoding: chunked;q=1"), "malformed-request"),
        (head("Transfer-Encoding: \x0bchunked"), "malformed-request"),
        (head("Transfer-Encoding: chunked", request_line="POST / HTTP/1.0"), "malformed-request"),
        (head("Content-Length : 5"), "malformed-request"),
        (head(" Content-Length: 5"), "malformed-request"),
        (head("X: a", "\tfolded"), "malformed-request"),
        (head("X: a", " folded"), "malformed-request"),
        (head("no colon"), "malformed-request"),
        (head(": no name"), "malformed-request"),
        (head("X: a\x00b"), "malformed-request"),
        (head("X: a\x7fb"), "malformed-request"),
        (head("X\xe9: a"), "malformed-request"),
        (head("X: a\rb"), "malformed-request"),
        (head("X: a\nContent-Length: 5"), "malformed-request"),
        (b"GET / HTTP/1.1\nHost: node\n\n", "malformed-request"),
        (b"\r\nGET / HTTP/1.1\r\nHost: node\r\n\r\n", "malformed-request"),
        (b"GET / HTTP/1.1\r\n\r\n", "malformed-request"),
        (head(host="Host: a b"), "malformed-request"),
        (head(host="Host: a,b"), "malformed-request"),
        (head(host="Host: user@node"), "malformed-request"),
        (head(request_line="GET / HTTP/2.0"), "malformed-request"),
        (head(request_line="GET / HTTP/1.2"), "malformed-request"),
        (head(request_line="GET / HTTP/0.9"), "malformed-request"),
        (head(request_line="GET / http/1.1"), "malformed-request"),
        (head(request_line="GET /"), "malformed-request"),
        (head(request_line="GET  / HTTP/1.1"), "malformed-request"),
        (head(request_line="GET / HTTP/1.1 "), "malformed-request"),
        (head(request_line="GET\t/\tHTTP/1.1"), "malformed-request"),
        (head(request_line="get / HTTP/1.1"), "malformed-request"),
        (head(request_line="GET http://other/ HTTP/1.1"), "malformed-request"),
        (head(request_line="CONNECT other:443 HTTP/1.1"), "malformed-request"),
        (head(request_line="OPTIONS * HTTP/1.1"), "malformed-request"),
        (head(request_line="GET /a#b HTTP/1.1"), "malformed-request"),
        (head(request_line="GET /\xe9 HTTP/1.1"), "malformed-request"),
        (head(request_line="GET /%e9 HTTP/1.1"), "malformed-request"),
        (head(request_line="GET /?q=%ff HTTP/1.1"), "malformed-request"),
        (head(request_line="GET /%2 HTTP/1.1"), "malformed-request"),
        (head(request_line="GET /?q=%zz HTTP/1.1"), "malformed-request"),
        (head(request_line="GET /local%2Freadings/tail HTTP/1.1"), "malformed-request"),
        (head(request_line="GET /local%5creadings/tail HTTP/1.1"), "malformed-request"),
        (head(request_line="GET /local\\readings/tail HTTP/1.1"), "malformed-request"),
        (head(request_line="GET /jobs/%00 HTTP/1.1"), "malformed-request"),
        (head("Expect: 200-ok"), "expectation-failed"),
    ],
)
def test_what_could_be_read_in_two_ways_is_refused(given_head: bytes, code: str) -> None:
    found = refusal(given_head)
    assert found is not None
    assert found.code == code
    assert 400 <= found.status < 500


def test_a_line_of_the_limit_passes_and_one_byte_more_does_not() -> None:
    longest = "X: " + "a" * (512 - 2 - 3)
    assert refusal(head(longest)) is None
    found = refusal(head(longest + "a"))
    assert found is not None
    assert found.status == 431


def test_a_target_of_the_limit_passes_and_one_byte_more_does_not() -> None:
    target = "/" + "a" * (512 - 2 - len("GET  HTTP/1.1") - 1)
    assert refusal(head(request_line=f"GET {target} HTTP/1.1")) is None
    found = refusal(head(request_line=f"GET {target}a HTTP/1.1"))
    assert found is not None
    assert found.status == 414


def test_a_head_of_the_limit_passes_and_one_byte_more_does_not() -> None:
    def of_size(size: int) -> bytes:
        lines = [f"X: {'a' * 400}"] * 4
        missing = size - len(head(*lines, "Y: "))
        return head(*lines, "Y: " + "a" * missing)

    assert len(of_size(2048)) == 2048
    assert refusal(of_size(2048)) is None
    found = refusal(of_size(2049))
    assert found is not None
    assert found.status == 431


def test_an_unfinished_head_is_refused_as_soon_as_it_is_too_large() -> None:
    assert find_head(b"a" * 2048, LIMITS) is None
    with pytest.raises(Refused):
        find_head(b"a" * 2049, LIMITS)


# Pieces from which heads are made that two parsers may see differently.
PIECES = st.sampled_from(
    [
        b"GET / HTTP/1.1\r\n",
        b"POST /query HTTP/1.1\r\n",
        b"Host: node\r\n",
        b"Content-Length: 3\r\n",
        b"Transfer-Encoding: chunked\r\n",
        b"X: y\r\n",
        b"\r\n",
        b"\n",
        b"\r",
        b" ",
        b"\t",
        b"abc",
        b"0\r\n\r\n",
        b":",
        b"\x00",
    ]
)
STREAMS = st.lists(PIECES, max_size=12).map(b"".join)


def events(stream: bytes, cuts: list[int]) -> tuple[list[tuple[object, ...]], bool]:
    """A server's view of a byte stream in these pieces: requests, and refusal."""
    connection = StrictConnection(LIMITS)
    seen: list[tuple[object, ...]] = []
    places = sorted({0, len(stream), *(cut % (len(stream) + 1) for cut in cuts)})
    for begin, end in pairwise(places):
        connection.receive_data(stream[begin:end])
        while True:
            try:
                event = connection.next_event()
            except h11.RemoteProtocolError:
                return seen, True
            if event is h11.NEED_DATA or event is h11.PAUSED:
                break
            if isinstance(event, h11.Request):
                seen.append((event.method, event.target, tuple(event.headers)))
    return seen, False


@given(STREAMS, st.lists(st.integers(0, 400), max_size=6))
def test_how_bytes_are_cut_into_packets_changes_nothing(stream: bytes, cuts: list[int]) -> None:
    assert events(stream, cuts) == events(stream, [])


@given(STREAMS)
def test_the_parser_sees_what_was_checked(stream: bytes) -> None:
    """Whatever passes is read by the parser, too: the two never disagree about a head."""
    seen, refused = events(stream, [])
    end = stream.find(b"\r\n\r\n")
    if end >= 0 and refusal(stream) is None:
        assert seen[0][0] == stream.split(b" ")[0]
    else:
        assert not seen
        assert refused or end < 0


@given(st.binary(max_size=200))
def test_no_bytes_break_the_connection(stream: bytes) -> None:
    events(stream, [7, 50])


GET = b"GET /info HTTP/1.1\r\nHost: node\r\n\r\n"


def answered(connection: StrictConnection) -> None:
    """The request under way is answered, the next one may begin."""
    connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
    connection.send(h11.EndOfMessage())
    connection.start_next_cycle()


def drained(connection: StrictConnection) -> list[str]:
    names = []
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA or event is h11.PAUSED:
            return names
        names.append(type(event).__name__)


def test_a_head_that_comes_after_the_request_waits_for_its_turn() -> None:
    """A client with a whole answer may be faster than the server that ends it."""
    connection = StrictConnection(LIMITS)
    connection.receive_data(GET)
    assert drained(connection) == ["Request", "EndOfMessage"]
    connection.receive_data(GET)
    assert connection.next_event() is h11.PAUSED
    assert not connection.ahead
    answered(connection)
    assert drained(connection) == ["Request", "EndOfMessage"]


@pytest.mark.parametrize(
    "next_head", [b"GET /info HTTP/1.1\nHost: node\n\n", head("Content-Length: 1", "Content-Length: 1")]
)
def test_a_head_that_waits_is_checked_like_any_other(next_head: bytes) -> None:
    connection = StrictConnection(LIMITS)
    connection.receive_data(GET)
    drained(connection)
    connection.receive_data(next_head)
    answered(connection)
    with pytest.raises(h11.RemoteProtocolError):
        connection.next_event()
    assert connection.refusal is not None


@pytest.mark.parametrize(
    "first", [GET, head("Content-Length: 3") + b"abc", head("Transfer-Encoding: chunked") + b"0\r\n\r\n"]
)
def test_what_comes_in_one_piece_with_a_request_is_never_another_one(first: bytes) -> None:
    connection = StrictConnection(LIMITS)
    connection.receive_data(first + GET)
    drained(connection)
    assert connection.ahead
    answered(connection)
    with pytest.raises(h11.RemoteProtocolError):
        connection.next_event()


def test_a_refusal_has_the_reason_phrase_of_its_status() -> None:
    answer = answer_bytes(Refused(431, "header-too-large", "too large"))
    assert answer.startswith(b"HTTP/1.1 431 Request Header Fields Too Large\r\n")
