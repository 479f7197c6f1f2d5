"""Requests as bytes: what no well-behaved client can be made to send."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass

from tests.services.api.serving import TOKEN


@dataclass(frozen=True, slots=True)
class RawAnswer:
    """An answer as it stood on the wire."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, object]:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value


def head(method: str, target: str, *lines: str, token: str | None = TOKEN) -> bytes:
    """A request head with Host and Authorization."""
    all_lines = [f"{method} {target} HTTP/1.1", "Host: node"]
    if token is not None:
        all_lines.append(f"Authorization: Bearer {token}")
    return ("\r\n".join([*all_lines, *lines]) + "\r\n\r\n").encode("latin-1")


def read_answer(connection: socket.socket) -> RawAnswer:
    """One answer: head, and as many bytes of body as it announces.

    Fails if the connection ends before.
    """
    data = b""
    while b"\r\n\r\n" not in data:
        data += received(connection)
    head_bytes, _, body = data.partition(b"\r\n\r\n")
    status_line, *lines = head_bytes.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    while len(body) < int(headers.get("content-length", "0")):
        body += received(connection)
    return RawAnswer(int(status_line.split(" ")[1]), headers, body)


def received(connection: socket.socket) -> bytes:
    """Some bytes. Fails at the end of the connection."""
    data = connection.recv(65536)
    assert data, "the connection ended"
    return data


def ends(connection: socket.socket) -> bool:
    """Whether the server closes: reads until it does, or fails by the socket timeout."""
    try:
        while connection.recv(65536):
            pass
    except ConnectionResetError:
        pass
    return True


def exchanged(connection: socket.socket, data: bytes) -> RawAnswer:
    """Send and read one answer."""
    connection.sendall(data)
    return read_answer(connection)
