"""Smart conversations with other nodes over WebSockets: the client's end.

Owns connecting, the upgrade and its statuses, limits of messages and time. Invariants: the socket is connected to an address that the guard
has checked; the token of an origin goes to that origin alone, redirects are not followed; no proxy, cookie or environment is used. A message
is sent in frames that every peer reads. No pings are sent: peers of the protocol take them for messages. Source: RFC 6455; RFC-007.
"""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Literal
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException
from websockets.frames import Close
from websockets.sync.client import ClientConnection, connect

from odfabric.domain.sources.remote_answers import login_hint, sensible_pause_s
from odfabric.domain.transfer.direction import SMART_SCHEMES, scheme_of, without_smart_prefix
from odfabric.errors import (
    AccessDenied,
    Determinate,
    InvalidRequest,
    LimitExceeded,
    NotFound,
    OdfError,
    Place,
    Unauthenticated,
)
from odfabric.model.transfer.smart import MESSAGE_BYTES_MAX, PROTOCOL_VERSION, VERSION_HEADER
from odfabric.ports.sources.egress import TcpConnections
from odfabric.ports.transfer.conversations import Closed, Conversation

FRAME_BYTES = 4 * 1024 * 1024
"""A long message is cut into such frames; peers read up to four times as much."""
CLOSE_S_MAX = 5.0
SAY_S_MAX = 3600.0
LOOK_S = 0.5
"""How often a wait for a message looks whether the library has given the conversation up."""
GONE = 1006
TOO_LONG = 1009
"""Why this end closes a conversation: the length that a frame announces, or the frames of a message together, are beyond the limit."""
NO_FRAMES = frozenset({1002, 1003, 1007})
"""Why this end closes it: what came is no frame of text."""
MESSAGE_CHARACTERS_MAX = 500
_DEFAULT_PORTS = {"ws": 80, "wss": 443}


class WebSocketConversations:
    """`ports.transfer.conversations.Conversations`."""

    def __init__(
        self,
        connections: TcpConnections,
        *,
        token_of: Callable[[str], str | None],
        ssl_context: ssl.SSLContext,
        message_bytes_max: int,
        connect_s_max: float,
        say_s_max: float = SAY_S_MAX,
    ) -> None:
        """`token_of` gives the token for the origin of a URL.

        `connect_s_max` is for connecting and for the upgrade, each; `say_s_max` for what the peer takes to read one message.
        """
        self._say_s_max = say_s_max
        self._connections = connections
        self._token_of = token_of
        self._ssl_context = ssl_context
        self._message_bytes_max = message_bytes_max
        self._connect_s_max = connect_s_max

    @contextmanager
    def open(self, url: str, verb: Literal["pull", "push"]) -> Iterator[Conversation]:
        """See the port."""
        connection = self._connected(url, verb)
        talk = WebSocketConversation(connection, bytes_max=self._message_bytes_max, say_s_max=self._say_s_max)
        try:
            yield talk
        finally:
            talk.end(1000, "")

    def _connected(self, url: str, verb: str) -> ClientConnection:
        target, shown = _target(url, verb)
        parts = urlsplit(target)
        assert parts.hostname is not None
        port = parts.port or _DEFAULT_PORTS[parts.scheme]
        token = self._token_of(url)
        headers = {VERSION_HEADER: str(PROTOCOL_VERSION)}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        connected = self._connections.connect(parts.hostname, port, seconds_max=self._connect_s_max)
        try:
            return connect(
                target,
                sock=connected,
                ssl=self._ssl_context if parts.scheme == "wss" else None,
                server_hostname=parts.hostname if parts.scheme == "wss" else None,
                additional_headers=headers,
                user_agent_header="odfabric",
                compression=None,
                proxy=None,
                open_timeout=self._connect_s_max,
                close_timeout=CLOSE_S_MAX,
                ping_interval=None,
                max_size=self._message_bytes_max,
                legacy=True,
            )
        except InvalidStatus as error:
            connected.close()
            raise _refused(error, shown) from None
        except (InvalidHandshake, OSError, TimeoutError, EOFError, WebSocketException, ValueError) as error:
            connected.close()
            raise Determinate(f"{shown} did not take up the conversation: {error}", stage="answer") from None


class WebSocketConversation:
    """One conversation that has begun."""

    def __init__(
        self, connection: ClientConnection, *, bytes_max: int = MESSAGE_BYTES_MAX, say_s_max: float = SAY_S_MAX
    ) -> None:
        self._connection = connection
        self._bytes_max = bytes_max
        self._say_s_max = say_s_max
        self._saying = threading.Lock()
        self._closed: Closed | None = None

    def say(self, text: str) -> None:
        """See the port."""
        try:
            with self._saying, self._patience():
                if len(text) <= FRAME_BYTES:
                    self._connection.send(text)
                else:
                    self._connection.send(text[at : at + FRAME_BYTES] for at in range(0, len(text), FRAME_BYTES))
        except (ConnectionClosed, OSError):
            raise Determinate("the conversation has ended") from None

    @contextmanager
    def _patience(self) -> Iterator[None]:
        """Cut the connection to a peer that does not read.

        Sending has no deadline of its own.
        """
        timer = threading.Timer(self._say_s_max, self._cut)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _cut(self) -> None:
        with suppress(OSError):
            self._connection.socket.shutdown(socket.SHUT_RDWR)

    def hear(self, *, seconds_max: float) -> str | Closed | None:
        """See the port."""
        if self._closed is not None:
            return self._closed
        deadline = monotonic() + seconds_max
        while True:
            left_s = deadline - monotonic()
            try:
                found = self._connection.recv(timeout=max(0.0, min(left_s, LOOK_S)))
                break
            except TimeoutError:
                # The library waits for the peer to close after it has refused a frame, and an evil one does not.
                self._raise_refused(self._connection.protocol.close_sent)
                if left_s <= LOOK_S:
                    return None
            except ConnectionClosed as error:
                self._closed = Closed(GONE) if error.rcvd is None else Closed(error.rcvd.code, error.rcvd.reason)
                if error.rcvd is None:
                    self._raise_refused(error.sent)
                return self._closed
            except (OSError, WebSocketException):
                self._closed = Closed(GONE)
                return self._closed
        if not isinstance(found, str):
            raise InvalidRequest("a message is no text", place=Place(field="message"))
        return found

    def _raise_refused(self, sent: Close | None) -> None:
        """Raise what this end has closed the conversation for, if it has."""
        if sent is None or sent.code not in (TOO_LONG, *NO_FRAMES):
            return
        self._closed = Closed(GONE)
        self._cut()
        if sent.code == TOO_LONG:
            raise LimitExceeded("a message is too long", limit="smart_message_bytes_max", maximum=self._bytes_max)
        raise InvalidRequest(f"what came is no message: {sent.reason}", place=Place(field="message"))

    def end(self, code: int, reason: str) -> None:
        """See the port."""
        with suppress(WebSocketException, OSError):
            self._connection.close(code, reason)


def _target(url: str, verb: str) -> tuple[str, str]:
    """The WebSocket's URL, and the dataset's for messages. Raises InvalidRequest."""
    if scheme_of(url) not in SMART_SCHEMES:
        raise InvalidRequest("the Smart protocol is spoken by odf+http(s):// URLs", place=Place(field="url"))
    plain = without_smart_prefix(url)
    try:
        parts = urlsplit(plain)
        host = parts.hostname
        _ = parts.port
    except ValueError as error:
        raise InvalidRequest(f"not a URL: {error}", place=Place(field="url")) from None
    if (
        not host
        or parts.query
        or parts.fragment
        or "@" in parts.netloc
        or not plain.isascii()
        or not plain.isprintable()
    ):
        raise InvalidRequest("the URL of a dataset has a host, a path and nothing else", place=Place(field="url"))
    scheme = "wss" if parts.scheme.lower() == "https" else "ws"
    return f"{scheme}://{parts.netloc}{parts.path.rstrip('/')}/{verb}", f"{plain.rstrip('/')}/"


def _refused(error: InvalidStatus, shown: str) -> OdfError:
    """The error of a status other than 101."""
    status, message = error.response.status_code, _message(error.response.body)
    match status:
        case 401:
            return Unauthenticated(message or f"{shown} wants a valid token", hint=login_hint(shown))
        case 403:
            return AccessDenied(message or f"{shown} refuses this account")
        case 404:
            return NotFound(
                "dataset",
                shown,
                hint="it may be private there, the account another one, or the node does not speak the Smart protocol",
            )
        case 429 | 500 | 502 | 503 | 504:
            return Determinate(
                f"{shown} answered {status}: {message or 'try again later'}",
                retry_after_s=sensible_pause_s(error.response.headers.get("retry-after")),
            )
        case _:
            hint = "if it redirects, give the URL that it redirects to" if 300 <= status <= 399 else None
            return InvalidRequest(message or f"{shown} answered {status}", place=Place(field="url"), hint=hint)


def _message(body: bytes | bytearray | None) -> str:
    """`message` of a JSON answer, else a text that is short and printable."""
    text = bytes(body or b"").decode("utf-8", "replace")[:10_000].strip()
    with suppress(ValueError, RecursionError):
        found = json.loads(text)
        text = str(found.get("message", "")) if isinstance(found, dict) else ""
    return text[:MESSAGE_CHARACTERS_MAX] if text.isprintable() else ""
