"""The one rule of framing: which bytes are the head of a request.

Owns the grammar of a request head, stricter than RFC 9112 where parsers are known to differ: lines end in CRLF only, no folded
lines, one origin-form target, either `Content-Length` or `Transfer-Encoding: chunked`, and no second value of a field that has
one. Invariant: whatever two servers could read differently is refused. Not here: reading bytes (`connection`), routes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

HEAD_END = b"\r\n\r\n"

_VERSION = re.compile(rb"HTTP/[0-9](?:\.[0-9])?")
_METHOD = re.compile(rb"[A-Z][A-Z_-]{0,31}")
_TARGET = re.compile(rb"/[!\"$-~]*")
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_HIDDEN_SEPARATOR = re.compile(rb"%2f|%5c|%00|\\", re.IGNORECASE)
_FIELD = re.compile(
    rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([!-~\x80-\xff](?:[ \t!-~\x80-\xff]*[!-~\x80-\xff])?)?[ \t]*"
)
_LONE_LINE_END = re.compile(rb"(?<!\r)\n|\r(?!\n|\Z)")
_HOST = re.compile(rb"[A-Za-z0-9._:\[\]-]*")
_LENGTH = re.compile(rb"0|[1-9][0-9]{0,18}")

# Fields of which a second one is ambiguous: anyone who reads the other one sees another request.
_SINGLE_FIELDS = frozenset(
    {
        b"authorization",
        b"content-length",
        b"content-type",
        b"expect",
        b"host",
        b"idempotency-key",
        b"if-match",
        b"odf-event-time",
        b"range",
        b"transfer-encoding",
    }
)


class Refused(Exception):
    """A request that no route sees.

    The answer's status, code and message, and the limit (name, value) that was hit.

    The connection is closed after it.
    """

    def __init__(self, status: int, code: str, message: str, *, limit: tuple[str, float] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.limit = status, code, message, limit


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLimits:
    """Bytes of a whole head and of one of its lines, line ends included.

    See the settings of the same names.
    """

    header_bytes_max: int
    header_line_bytes_max: int


def find_head(data: bytes | bytearray, limits: HeadLimits, *, seen: int = 0) -> int | None:
    """Where the head at the start of `data` ends, None while it is incomplete.

    `seen` bytes were looked at before.

    Raises Refused for what cannot become a head.
    """
    found = data.find(HEAD_END, max(0, seen - len(HEAD_END) + 1))
    end = len(data) if found < 0 else found + len(HEAD_END)
    if _LONE_LINE_END.search(data, max(0, seen - 1), end):
        raise _malformed("lines end in CR LF")
    if end > limits.header_bytes_max:
        maximum = limits.header_bytes_max
        message = f"the head of a request has at most {maximum} bytes"
        raise Refused(431, "header-too-large", message, limit=("header_bytes_max", maximum))
    return None if found < 0 else end


def check_head(head: bytes, limits: HeadLimits) -> None:
    """Check a complete head. Raises Refused."""
    request_line, *lines = head[: -len(HEAD_END)].split(b"\r\n")
    maximum = limits.header_line_bytes_max
    limit = ("header_line_bytes_max", maximum)
    if len(request_line) + 2 > maximum:
        raise Refused(414, "uri-too-long", f"the request line has at most {maximum} bytes", limit=limit)
    if any(len(line) + 2 > maximum for line in lines):
        raise Refused(431, "header-too-large", f"a line of the head has at most {maximum} bytes", limit=limit)
    version = _check_request_line(request_line)
    _check_fields(_fields(lines), version)


def _check_request_line(line: bytes) -> bytes:
    parts = line.split(b" ")
    if len(parts) != 3:
        raise _malformed("a request begins with method, target and version")
    method, target, version = parts
    if version not in (b"HTTP/1.1", b"HTTP/1.0"):
        raise _malformed("HTTP/1.1 is spoken here" if _VERSION.fullmatch(version) else "malformed request line")
    if _METHOD.fullmatch(method) is None:
        raise _malformed("malformed method")
    if _TARGET.fullmatch(target) is None:
        raise _malformed("the target is a path, with a query at most")
    if _BAD_ESCAPE.search(target):
        raise _malformed("a percent sign in the target is not followed by two hexadecimal digits")
    path, _, query = target.partition(b"?")
    if _HIDDEN_SEPARATOR.search(path):
        raise _malformed("the path has an escaped separator or NUL")
    if not (_is_utf8(path) and _is_utf8(query)):
        raise _malformed("the target is not UTF-8")
    return version


def _fields(lines: list[bytes]) -> dict[bytes, bytes]:
    found: dict[bytes, bytes] = {}
    for line in lines:
        if line[:1] in (b" ", b"\t"):
            raise _malformed("folded header lines are not read")
        match = _FIELD.fullmatch(line)
        if match is None:
            raise _malformed("malformed header line")
        name = match[1].lower()
        if name in found and name in _SINGLE_FIELDS:
            raise Refused(400, "ambiguous-request", f"more than one {name.decode()} header")
        found[name] = match[2] or b""
    return found


def _check_fields(fields: dict[bytes, bytes], version: bytes) -> None:
    host, length, coding = (fields.get(name) for name in (b"host", b"content-length", b"transfer-encoding"))
    if host is None and version == b"HTTP/1.1":
        raise _malformed("the Host header is missing")
    if host is not None and _HOST.fullmatch(host) is None:
        raise _malformed("malformed Host header")
    if length is not None and _LENGTH.fullmatch(length) is None:
        raise _malformed("malformed Content-Length header")
    if coding is not None:
        if length is not None:
            raise Refused(400, "ambiguous-request", "both Content-Length and Transfer-Encoding are given")
        if coding.lower() != b"chunked" or version == b"HTTP/1.0":
            raise _malformed("the only transfer coding is chunked, in HTTP/1.1")
    if fields.get(b"expect", b"100-continue").lower() != b"100-continue":
        raise Refused(417, "expectation-failed", "the only expectation is 100-continue")


def _malformed(message: str) -> Refused:
    return Refused(400, "malformed-request", message)


def _is_utf8(escaped: bytes) -> bool:
    try:
        unquote_to_bytes(escaped).decode()
    except UnicodeDecodeError:
        return False
    return True
