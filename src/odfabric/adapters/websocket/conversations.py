"""Smart conversations with other nodes over WebSockets: the client's end.

Owns connecting, the upgrade and its statuses, limits of messages and time. Invariants: the socket is connected to an address that the guard
has checked; the token of an origin goes to that origin alone, redirects are not followed; no proxy, cookie or environment is used. A message
is sent in frames that every peer reads. No pings are sent: peers of the protocol take them for messages. Source: RFC 6455; RFC-007.
"""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal
from urllib.parse import urlsplit

from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus, WebSocketException
from websockets.sync.client import ClientConnection, connect

from odfabric.domain.sources.remote_answers import login_hint
from odfabric.domain.transfer.direction import SMART_SCHEMES, scheme_of, without_smart_prefix
from odfabric.errors import (
    AccessDenied,
    Determinate,
    InvalidRequest,
    NotFound,
    OdfError,
    Place,
    Unauthenticated,
)
from odfabric.model.transfer.smart import PROTOCOL_VERSION, VERSION_HEADER
from odfabric.ports.sources.egress import TcpConnections
from odfabric.ports.transfer.conversations import Closed, Conversation

FRAME_BYTES = 4 * 1024 * 1024
"""A long message is cut into such frames; peers read up to four times as much."""
CLOSE_S_MAX = 5.0
GONE = 1006
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
    ) -> None:
        """`token_of` gives the token for the origin of a URL.

        `connect_s_max` is for connecting and for the upgrade, each.
        """
        self._connections = connections
        self._token_of = token_of
        self._ssl_context = ssl_context
        self._message_bytes_max = message_bytes_max
        self._connect_s_max = connect_s_max

    @contextmanager
    def open(self, url: str, verb: Literal["pull", "push"]) -> Iterator[Conversation]:
        """See the port."""
        connection = self._connected(url, verb)
        talk = WebSocketConversation(connection)
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

    def __init__(self, connection: ClientConnection) -> None:
        self._connection = connection
        self._saying = threading.Lock()
        self._closed: Closed | None = None

    def say(self, text: str) -> None:
        """See the port."""
        try:
            with self._saying:
                if len(text) <= FRAME_BYTES:
                    self._connection.send(text)
                else:
                    self._connection.send(text[at : at + FRAME_BYTES] for at in range(0, len(text), FRAME_BYTES))
        except (ConnectionClosed, OSError):
            raise Determinate("the conversation has ended") from None

    def hear(self, *, seconds_max: float) -> str | Closed | None:
        """See the port."""
        if self._closed is not None:
            return self._closed
        try:
            found = self._connection.recv(timeout=seconds_max)
        except TimeoutError:
            return None
        except (ConnectionClosed, OSError, WebSocketException) as error:
            received = error.rcvd if isinstance(error, ConnectionClosed) else None
            self._closed = Closed(GONE) if received is None else Closed(received.code, received.reason)
            return self._closed
        if not isinstance(found, str):
            raise InvalidRequest("a message is no text", place=Place(field="message"))
        return found

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
            return Determinate(f"{shown} answered {status}: {message or 'try again later'}")
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
