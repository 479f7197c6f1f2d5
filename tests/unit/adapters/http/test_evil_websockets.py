"""Evil servers of WebSockets, as a conversation meets them.

They announce huge frames, never end a message, do not read, or lead elsewhere.
"""

from __future__ import annotations

import base64
import hashlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from odfabric.adapters.http.egress import Egress, EgressLimits
from odfabric.adapters.websocket.conversations import WebSocketConversations
from odfabric.errors import AccessDenied, Determinate, InvalidRequest, LimitExceeded
from tests.support.loopback_http import LoopbackServer, reply

MESSAGE_BYTES_MAX = 1 << 20
WAIT_S = 20.0
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
HEADERS = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n"

Behave = Callable[[socket.socket, bytes, threading.Event], None]
"""What a server does with a connection, its accepting headers, and the end of the test."""


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[ExitStack]:
    monkeypatch.setattr("odfabric.adapters.websocket.conversations.CLOSE_S_MAX", 0.2)
    with ExitStack() as found:
        yield found


@contextmanager
def evil(behave: Behave) -> Iterator[int]:
    """The port of a server that behaves so with its one connection."""
    over = threading.Event()

    def serve(listener: socket.socket) -> None:
        with suppress(OSError):
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(WAIT_S)
                head = b""
                while b"\r\n\r\n" not in head:
                    head += connection.recv(4096)
                key = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key: "))
                digest = hashlib.sha1(key.partition(b": ")[2] + MAGIC, usedforsecurity=False).digest()
                with suppress(OSError):
                    behave(connection, HEADERS % base64.b64encode(digest), over)
                over.wait(WAIT_S)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,), daemon=True)
        thread.start()
        try:
            yield listener.getsockname()[1]
        finally:
            over.set()
            thread.join(WAIT_S)


def after_upgrade(*pieces: bytes) -> Behave:
    def behave(connection: socket.socket, headers: bytes, _: threading.Event) -> None:
        connection.sendall(b"HTTP/1.1 101 Switching\r\n" + headers + b"\r\n")
        for piece in pieces:
            connection.sendall(piece)

    return behave


def client(stack: ExitStack, port: int, *, token: str | None = None, allow: bool = True) -> WebSocketConversations:
    limits = EgressLimits(ports=(port,))
    egress = stack.enter_context(Egress(limits=limits, allow=[f"127.0.0.1:{port}"] if allow else []))
    return WebSocketConversations(
        egress.connections([port]),
        token_of=lambda _: token,
        ssl_context=egress.ssl_context,
        message_bytes_max=MESSAGE_BYTES_MAX,
        connect_s_max=0.5,
        say_s_max=0.5,
    )


def heard(stack: ExitStack, behave: Behave) -> object:
    port = stack.enter_context(evil(behave))
    with client(stack, port).open(f"odf+http://127.0.0.1:{port}/ann/ds/", "pull") as talk:
        return talk.hear(seconds_max=WAIT_S)


FRAGMENT = b"\x00\x7e" + struct.pack("!H", 60_000) + b"x" * 60_000


@pytest.mark.parametrize(
    "frames",
    [
        [b"\x81\x7f" + struct.pack("!Q", 2**62) + b"abc"],
        [b"\x01\x01a", *[FRAGMENT] * 20],
        [b"\x81\x7f" + struct.pack("!Q", MESSAGE_BYTES_MAX + 1)],
    ],
    ids=["length", "fragments", "one byte"],
)
def test_a_message_beyond_the_limit_is_refused_by_what_it_announces(stack: ExitStack, frames: list[bytes]) -> None:
    with pytest.raises(LimitExceeded) as refused:
        heard(stack, after_upgrade(*frames))
    assert refused.value.limit == "smart_message_bytes_max"


@pytest.mark.parametrize(
    "frame",
    [b"\xc1\x01a", b"\x83\x01a", b"\x81\x81abcda", b"\x81\x02\xc3\x28"],
    ids=["compressed", "unknown", "masked", "no text"],
)
def test_what_is_no_frame_of_text_is_refused(stack: ExitStack, frame: bytes) -> None:
    with pytest.raises(InvalidRequest, match="is no message"):
        heard(stack, after_upgrade(frame))


def test_a_message_that_drips_has_come_to_nothing_when_the_wait_is_over(stack: ExitStack) -> None:
    port = stack.enter_context(evil(after_upgrade(b"\x81\x7e\xff\xff", b"abc")))
    with client(stack, port).open(f"odf+http://127.0.0.1:{port}/ann/ds/", "pull") as talk:
        assert talk.hear(seconds_max=0.2) is None


def test_a_server_that_does_not_read_is_given_up(stack: ExitStack) -> None:
    port = stack.enter_context(evil(after_upgrade()))
    talk = stack.enter_context(client(stack, port).open(f"odf+http://127.0.0.1:{port}/ann/ds/", "push"))
    with pytest.raises(Determinate):
        talk.say("x" * 30_000_000)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"HTTP/1.1 404 No\r\nContent-Length: 1000000000000000000\r\n\r\nabc",
        b"HTTP/1.1 404 No\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\nabc",
        b"HTTP/1.1 200 No\r\n" + b"X: y\r\n" * 1000,
        b"HTTP/1.1 404 No\r\nX: " + b"y" * 100_000,
    ],
    ids=["silence", "huge body", "long number", "many headers", "long header"],
)
def test_an_upgrade_without_an_end_is_given_up(stack: ExitStack, answer: bytes) -> None:
    def behave(connection: socket.socket, _: bytes, __: threading.Event) -> None:
        connection.sendall(answer)

    with pytest.raises(Determinate, match="did not take up the conversation"):
        heard(stack, behave)


def test_an_extension_that_was_not_asked_for_is_refused(stack: ExitStack) -> None:
    def behave(connection: socket.socket, headers: bytes, _: threading.Event) -> None:
        extension = b"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
        connection.sendall(b"HTTP/1.1 101 Switching\r\n" + headers + extension)

    with pytest.raises(Determinate, match="extension"):
        heard(stack, behave)


@pytest.mark.parametrize("scheme", ["http", "ws", "odf+http"])
def test_an_upgrade_that_redirects_is_not_followed_with_our_token(stack: ExitStack, scheme: str) -> None:
    other = LoopbackServer(lambda _: reply(200))
    stack.enter_context(other.serving())

    def behave(connection: socket.socket, _: bytes, __: threading.Event) -> None:
        place = f"{scheme}://{other.place}/ann/ds/pull"
        connection.sendall(reply(307, b"", {"Location": place}))

    port = stack.enter_context(evil(behave))
    with (
        pytest.raises((Determinate, InvalidRequest)),
        client(stack, port, token="odf_secret").open(f"odf+http://127.0.0.1:{port}/ann/ds/", "pull"),
    ):
        raise AssertionError("it began")
    assert other.connections == 0


def test_an_inner_address_is_refused_before_the_upgrade(stack: ExitStack) -> None:
    for place in ("127.0.0.1", "169.254.169.254", "[::1]", "10.0.0.1"):
        with (
            pytest.raises(AccessDenied, match="not a public address"),
            client(stack, 80, allow=False).open(f"odf+http://{place}/ann/ds/", "pull"),
        ):
            raise AssertionError("it began")
