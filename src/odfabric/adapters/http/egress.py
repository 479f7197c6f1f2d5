"""The only module that sends requests to addresses that users choose.

Owns one request from URL to bounded answer: redirects, limits, what may be sent where. Invariants: every hop is read and
decided again; headers of the caller go to the origin of its URL and nowhere else, and not again after leaving it; nothing
ambient is ever used (no proxy, netrc, cookie, environment), because this sits on httpx's bare connection pool, below the
layer that knows of them; an answer is cut at its limit of bytes as received and after decoding, and at a deadline for the whole.
Not here: the meaning of statuses (`fetch`, `webhook`, `remote_dataset`). Source: docs/threat-model.md.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from ssl import SSLContext, create_default_context
from time import monotonic

import certifi
import httpcore

from odfabric.adapters.http.connections import GuardedConnections
from odfabric.adapters.http.decoding import ACCEPTED, PIECE_BYTES_MAX, BadCoding, decode
from odfabric.adapters.http.guard import EgressGuard, Resolver, system_resolver
from odfabric.adapters.http.network import Connector, GuardedNetwork, HandshakeFailed, Pace, connect_socket
from odfabric.adapters.http.url import HttpUrl, parse_http_url
from odfabric.errors import (
    AccessDenied,
    Determinate,
    External,
    Indeterminate,
    InvalidRequest,
    LimitExceeded,
    Place,
)

USER_AGENT = "odfabric"
HEADERS_MAX = 100
HEADER_CHARACTERS_MAX = 16 * 1024
EXCERPT_BYTES_MAX = 200
"""Part of an error's body that a message repeats."""
BODY_START_S_MAX = 1.0
"""Longest wait for the beginning of a body of which nothing depends."""

_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
# They frame the message, name the place or change what is asked; a user's value would contradict ours.
_OURS = frozenset(
    {
        "accept-encoding",
        "connection",
        "content-length",
        "expect",
        "host",
        "if-match",
        "if-modified-since",
        "if-none-match",
        "if-range",
        "if-unmodified-since",
        "keep-alive",
        "range",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "via",
    }
)
_NEVER_SENT = (
    httpcore.ConnectError,
    httpcore.ConnectTimeout,
    httpcore.PoolTimeout,
    httpcore.LocalProtocolError,
    httpcore.UnsupportedProtocol,
)
_CLOSED = (httpcore.NetworkError, httpcore.RemoteProtocolError)
_BROKEN = (httpcore.NetworkError, httpcore.TimeoutException, httpcore.ProtocolError, httpcore.UnsupportedProtocol)


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressLimits:
    """Limits of all outgoing requests; seconds, bytes, counts."""

    ports: Sequence[int] = (80, 443, 8080, 8443)
    connect_s_max: float = 30.0
    """Lookup, connection and TLS handshake of one hop."""
    answer_s_max: float = 60.0
    """From the request to the first byte of the answer."""
    total_s_max: float = 3600.0
    """One request with its redirects and whole body."""
    bytes_per_s_min: int = 1024
    rate_window_s: float = 10.0
    """Time of waiting for bytes over which the rate is judged."""
    redirects_max: int = 10
    connections_max: int = 100
    idle_connections_max: int = 20
    idle_connection_s_max: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeLimit:
    """Largest body, as received and decoded, and the name of the setting that says so."""

    name: str
    bytes_max: int


class AnswerHead:
    """Status and headers of an answer."""

    def __init__(self, url: HttpUrl, response: httpcore.Response) -> None:
        self.url = url
        self.status = response.status
        self._headers: dict[str, list[str]] = {}
        for name, value in response.headers:
            self._headers.setdefault(name.decode("latin-1").lower(), []).append(value.decode("latin-1"))

    def header(self, name: str) -> str | None:
        """The values of a header, joined by commas, or None."""
        values = self._headers.get(name.lower())
        return ", ".join(values) if values else None


class StartedAnswer(AnswerHead):
    """An answer of which only the beginning of the body was read."""

    def __init__(self, url: HttpUrl, response: httpcore.Response, start: bytes) -> None:
        super().__init__(url, response)
        self.start = start


class Answer(AnswerHead):
    """An answer with its bounded body, to be read before its context ends."""

    def __init__(self, url: HttpUrl, response: httpcore.Response, limit: SizeLimit) -> None:
        super().__init__(url, response)
        self._response = response
        self._limit = limit

    def body(self) -> Iterator[bytes]:
        """Pieces of the decoded body.

        Raises LimitExceeded, Determinate if it breaks, is late, slow or badly coded.
        """
        declared = self.header("content-length")
        if declared is not None and declared.isdecimal() and int(declared) > self._limit.bytes_max:
            raise self._too_large()
        yield from self._pieces()

    def _pieces(self) -> Iterator[bytes]:
        decoded = 0
        try:
            for piece in decode(self._received(), self.header("content-encoding")):
                decoded += len(piece)
                if decoded > self._limit.bytes_max:
                    raise self._too_large()
                yield piece
        except BadCoding as error:
            raise Determinate(f"the answer of {self.url.shown} cannot be read: {error}") from None
        except _BROKEN as error:
            raise Determinate(f"the answer of {self.url.shown} broke off: {error}") from None

    def read(self) -> bytes:
        """The whole decoded body; raises like `body`."""
        return b"".join(self.body())

    def start(self, bytes_max: int) -> bytes:
        """The beginning of the body, or what has come of it.

        Raises nothing: nothing depends on it.
        """
        start = b""
        try:
            for piece in self._pieces():
                start += piece
                if len(start) >= bytes_max:
                    break
        except (Determinate, LimitExceeded):
            pass
        return start[:bytes_max]

    def excerpt(self) -> str:
        """The beginning of the body in printable characters, for the message of an error."""
        text = self.start(EXCERPT_BYTES_MAX).decode("utf-8", "replace")
        return " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())

    def _received(self) -> Iterator[bytes]:
        received = 0
        for chunk in self._response.iter_stream():
            received += len(chunk)
            if received > self._limit.bytes_max:
                raise self._too_large()
            yield chunk

    def _too_large(self) -> LimitExceeded:
        return LimitExceeded(
            f"the answer of {self.url.shown} is too large", limit=self._limit.name, maximum=self._limit.bytes_max
        )


@cache
def _usual_authorities() -> SSLContext:
    """One for the process: to read them takes 30 ms."""
    return create_default_context(cafile=certifi.where())


class Egress:
    """The guarded client. Safe for use by many threads; close it when done."""

    def __init__(
        self,
        *,
        limits: EgressLimits | None = None,
        allow: Sequence[str] = (),
        resolver: Resolver = system_resolver,
        connector: Connector = connect_socket,
        ssl_context: SSLContext | None = None,
    ) -> None:
        """`allow`: exceptions to the guard.

        `ssl_context`: trust of other authorities than the usual ones.

        Raises InvalidRequest for an exception that cannot be read.
        """
        self.limits = limits or EgressLimits()
        self._guard = EgressGuard(ports=self.limits.ports, allow=allow, resolver=resolver)
        self._allow, self._resolver, self._connector = allow, resolver, connector
        self._connections: list[GuardedConnections] = []
        pace = Pace(
            answer_s_max=self.limits.answer_s_max,
            window_s=self.limits.rate_window_s,
            bytes_per_s_min=self.limits.bytes_per_s_min,
        )
        self.ssl_context = ssl_context or _usual_authorities()
        self._pool = httpcore.ConnectionPool(
            ssl_context=self.ssl_context,
            max_connections=self.limits.connections_max,
            max_keepalive_connections=self.limits.idle_connections_max,
            keepalive_expiry=self.limits.idle_connection_s_max,
            network_backend=GuardedNetwork(self._guard, pace, connector),
        )

    def close(self) -> None:
        """Close idle connections and give up lookups."""
        self._pool.close()
        self._guard.close()
        for connections in self._connections:
            connections.close()

    def connections(self, ports: Collection[int]) -> GuardedConnections:
        """Guarded connections for another protocol to these ports.

        Under the same exceptions, until the client is closed.
        """
        made = GuardedConnections(ports=ports, allow=self._allow, resolver=self._resolver, connector=self._connector)
        self._connections.append(made)
        return made

    def __enter__(self) -> Egress:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def check(self, url: str) -> HttpUrl:
        """Read a URL and refuse what can be refused without the network.

        Raises InvalidRequest, AccessDenied.
        """
        target = parse_http_url(url)
        self._guard.check(target)
        return target

    @contextmanager
    def get(
        self,
        url: str,
        *,
        headers: Sequence[tuple[str, str]] = (),
        conditions: Sequence[tuple[str, str]] = (),
        limit: SizeLimit,
        total_s_max: float | None = None,
    ) -> Iterator[Answer]:
        """GET, redirects followed, in `total_s_max` seconds (default: the limit's).

        `headers` stay with the origin of `url`; `conditions` go to every hop.

        Raises InvalidRequest, AccessDenied, LimitExceeded (redirects), Determinate.
        """
        target = self.check(url)
        private = check_headers(headers)
        deadline = monotonic() + (self.limits.total_s_max if total_s_max is None else total_s_max)
        for _ in range(self.limits.redirects_max + 1):
            with self._sent("GET", target, [*private, *conditions], deadline) as response:
                location = _location(response)
                if location is None:
                    yield Answer(target, response, limit)
                    return
            here, target = target, self._followed(target, location)
            if here.origin != target.origin:
                private = []
        raise LimitExceeded(
            f"{url_shown(url)} redirects too often", limit="egress_redirects_max", maximum=self.limits.redirects_max
        )

    def post(
        self, url: str, *, headers: Mapping[str, str], body: bytes, total_s_max: float, start_bytes_max: int = 0
    ) -> StartedAnswer:
        """POST, redirects not followed, all within `total_s_max`.

        The answer and the beginning of its body.

        For that nobody waits longer than `BODY_START_S_MAX`. Raises InvalidRequest, AccessDenied; Determinate if nothing was sent,
        Indeterminate if it may have arrived.
        """
        limit = SizeLimit(name="start_bytes_max", bytes_max=start_bytes_max + 2 * PIECE_BYTES_MAX)
        with self._posted(url, headers, body, total_s_max, body_s_max=BODY_START_S_MAX) as (target, response):
            start = Answer(target, response, limit).start(start_bytes_max) if start_bytes_max else b""
            return StartedAnswer(target, response, start)

    @contextmanager
    def exchange(
        self, url: str, *, headers: Mapping[str, str], body: bytes, total_s_max: float, limit: SizeLimit
    ) -> Iterator[Answer]:
        """POST with an answer that is read; otherwise like `post`."""
        with self._posted(url, headers, body, total_s_max) as (target, response):
            yield Answer(target, response, limit)

    def put(
        self,
        url: str,
        *,
        headers: Sequence[tuple[str, str]],
        body: Iterable[bytes],
        size: int,
        start_bytes_max: int = 0,
    ) -> StartedAnswer:
        """PUT of a body of `size` bytes, redirects not followed.

        The answer and the beginning of its body.

        Raises InvalidRequest, AccessDenied; Determinate if nothing was sent, Indeterminate if it may have arrived.
        """
        target = self.check(url)
        sent = [*check_headers(headers), ("Connection", "close"), ("Content-Length", str(size))]
        limit = SizeLimit(name="start_bytes_max", bytes_max=start_bytes_max + 2 * PIECE_BYTES_MAX)
        deadline = monotonic() + self.limits.total_s_max
        with self._sent("PUT", target, sent, deadline, body, BODY_START_S_MAX) as response:
            start = Answer(target, response, limit).start(start_bytes_max) if start_bytes_max else b""
            return StartedAnswer(target, response, start)

    @contextmanager
    def _posted(
        self,
        url: str,
        headers: Mapping[str, str],
        body: bytes,
        total_s_max: float,
        *,
        body_s_max: float | None = None,
    ) -> Iterator[tuple[HttpUrl, httpcore.Response]]:
        target = self.check(url)
        sent = [*check_headers(tuple(headers.items())), ("Connection", "close"), ("Content-Length", str(len(body)))]
        with self._sent("POST", target, sent, monotonic() + total_s_max, body, body_s_max) as response:
            yield target, response

    @contextmanager
    def _sent(
        self,
        method: str,
        target: HttpUrl,
        headers: Sequence[tuple[str, str]],
        deadline: float,
        body: bytes | Iterable[bytes] = b"",
        body_s_max: float | None = None,
    ) -> Iterator[httpcore.Response]:
        deadlines = self._deadlines(deadline)
        response = self._answered(method, target, _wire_headers(target, headers), deadlines, body)
        if body_s_max is not None:
            deadlines["read"] = min(deadline, monotonic() + body_s_max)
        try:
            yield response
        finally:
            response.close()

    def _answered(
        self,
        method: str,
        target: HttpUrl,
        headers: Sequence[tuple[bytes, bytes]],
        deadlines: dict[str, float],
        body: bytes | Iterable[bytes],
    ) -> httpcore.Response:
        # A server may close an idle connection at the very moment that it is used again, which says nothing of the server.
        for _ in range(self.limits.idle_connections_max + 1):
            connects = _Connects()
            extensions = {"timeout": deadlines, "trace": connects}
            request = httpcore.Request(method, _wire_url(target), headers=headers, content=body, extensions=extensions)
            try:
                return self._pool.handle_request(request)
            except _CLOSED as error:
                if method != "GET" or connects.seen:
                    raise _failure(method, target, error) from None
            except _BROKEN as error:
                raise _failure(method, target, error) from None
        raise Determinate(f"{target.shown} did not answer: it closes connections that are used again")

    def _deadlines(self, deadline: float) -> dict[str, float]:
        # "pool" is the one number that the library itself reads, as seconds; the others reach `PacedStream` untouched.
        now = monotonic()
        connect_s = min(self.limits.connect_s_max, max(deadline - now, 0.0))
        return {"pool": connect_s, "connect": now + connect_s, "write": deadline, "read": deadline}

    def _followed(self, here: HttpUrl, location: str) -> HttpUrl:
        try:
            there = here.join(location)
            self._guard.check(there)
        except InvalidRequest as error:
            message = f"{here.shown} redirects to a URL that is refused: {error.message}"
            raise InvalidRequest(message, place=error.place, hint="give the URL of the data itself") from None
        except AccessDenied as error:
            raise AccessDenied(f"{here.shown} redirects elsewhere: {error.message}", hint=error.hint) from None
        if here.scheme == "https" and there.scheme == "http":
            raise AccessDenied(
                f"{here.shown} redirects from https to http",
                hint=f"if it may be read unprotected, give {there.shown} itself",
            )
        return there


class _Connects:
    """Hears of what a request does.

    Whether it asked for a connection of its own, or took one that was idle.
    """

    def __init__(self) -> None:
        self.seen = False

    def __call__(self, event: str, _: Mapping[str, object]) -> None:
        self.seen = self.seen or event.startswith("connection.connect_")


def url_shown(url: str) -> str:
    """A URL that has been read before, for messages: without its query."""
    return parse_http_url(url).shown


def check_headers(headers: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """The headers of a caller.

    Raises InvalidRequest for ones that are malformed, too large or not a caller's to set.
    """
    if len(headers) > HEADERS_MAX or sum(len(name) + len(value) for name, value in headers) > HEADER_CHARACTERS_MAX:
        raise InvalidRequest(
            "too many request headers",
            place=Place(field="headers"),
            hint=f"at most {HEADERS_MAX} headers and {HEADER_CHARACTERS_MAX} characters",
        )
    for name, value in headers:
        if _TOKEN.fullmatch(name) is None:
            raise InvalidRequest(f"{name[:100]!r} is not the name of a header", place=Place(field="headers"))
        if _VALUE.fullmatch(value) is None:
            raise InvalidRequest(
                "the value of a header has control characters or is not Latin", place=Place(field=name)
            )
        if name.lower() in _OURS or name.lower().startswith("proxy-"):
            raise InvalidRequest(f"header {name} is set by the node", place=Place(field=name), hint="leave it out")
    return list(headers)


def _location(response: httpcore.Response) -> str | None:
    if response.status not in _REDIRECTS:
        return None
    for name, value in response.headers:
        if name.lower() == b"location":
            return value.decode("utf-8", "surrogateescape")
    return None


def _wire_url(target: HttpUrl) -> httpcore.URL:
    return httpcore.URL(
        scheme=target.scheme.encode(), host=target.host.encode(), port=target.port, target=target.target.encode()
    )


def _wire_headers(target: HttpUrl, headers: Sequence[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    given = {name.lower() for name, _ in headers}
    defaults = [("Host", target.host_header), ("Accept-Encoding", ACCEPTED)]
    defaults += [
        (name, value) for name, value in (("User-Agent", USER_AGENT), ("Accept", "*/*")) if name.lower() not in given
    ]
    return [(name.encode("ascii"), value.encode("latin-1")) for name, value in (*defaults, *headers)]


def _failure(method: str, target: HttpUrl, error: Exception) -> External:
    text, stage = f"{target.shown} did not answer: {error}", _stage(error)
    if method == "GET" or isinstance(error, _NEVER_SENT):
        return Determinate(text, stage=stage)
    return Indeterminate(text, stage=stage)


def _stage(error: Exception) -> str:
    if isinstance(error, httpcore.TimeoutException):
        return "time"
    if isinstance(error, HandshakeFailed):
        return "tls"
    return "connect" if isinstance(error, httpcore.ConnectError) else "answer"
