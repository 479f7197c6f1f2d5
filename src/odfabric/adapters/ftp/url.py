"""The strict reading of an FTP URL.

Owns `FtpUrl`. Invariant: user, password and path hold nothing that could end a line of the protocol and begin another command. Host and
port are judged by the guard. Source: RFC 1738, section 3.2; RFC 959, section 5.3.1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn
from urllib.parse import unquote_to_bytes

from odfabric.errors import InvalidRequest, Place

URL_CHARACTERS_MAX = 8_192
FTP_PORT = 21
FTPS_PORT = 990
"""TLS from the first byte; on every other port of an ftps URL it begins with the command AUTH."""

_PARTS = re.compile(r"(ftps?)://([^/?#]*)/([^?#]*)", re.IGNORECASE)
_AUTHORITY = re.compile(
    r"(?:(?P<user>[^:@\[\]]*)(?::(?P<password>[^@]*))?@)?(?:\[(?P<address>[0-9A-Fa-f:.]+)\]|(?P<name>[A-Za-z0-9._-]+))(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
_TYPE = re.compile(r";type=(.)$", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class FtpUrl:
    """An ftp or ftps URL.

    User, password and path are bytes as latin-1 texts, as the protocol's library takes them.
    """

    scheme: str
    host: str
    port: int
    user: str
    password: str
    path: str
    shown: str

    @property
    def implicit_tls(self) -> bool:
        """Whether TLS begins with the connection."""
        return self.scheme == "ftps" and self.port == FTPS_PORT


def parse_ftp_url(url: str) -> FtpUrl:
    """Raises InvalidRequest naming what is wrong; no message holds user or password."""
    if len(url) > URL_CHARACTERS_MAX:
        _refuse("the URL is too long")
    if not url.isascii() or not url.isprintable() or " " in url:
        _refuse("the URL has characters that must be percent-encoded")
    parts = _PARTS.fullmatch(url)
    if parts is None:
        _refuse("not an FTP URL of a file", hint="ftp://host/folder/file.csv, with ? and # in names percent-encoded")
    authority = _AUTHORITY.fullmatch(parts[2])
    if authority is None:
        _refuse("the URL names no host", hint="ftp://user:password@host:21/folder/file.csv, %40 for an @ in them")
    scheme = parts[1].lower()
    path, transfer_type = parts[3], _TYPE.search(parts[3])
    if transfer_type is not None:
        if transfer_type[1].lower() != "i":
            _refuse("files are fetched as they are", hint="write ;type=i, or nothing")
        path = path[: transfer_type.start()]
    if not path or path.endswith("/"):
        _refuse("the URL names a folder", hint="name one file")
    host = (authority["address"] or authority["name"]).lower()
    port = int(authority["port"] or (FTPS_PORT if scheme == "ftps" else FTP_PORT))
    if not 0 < port < 65_536:
        _refuse("the URL has no such port")
    return FtpUrl(
        scheme=scheme,
        host=host,
        port=port,
        user=_decoded(authority["user"] or "", "user"),
        password=_decoded(authority["password"] or "", "password"),
        path=_decoded(path, "path"),
        shown=f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}/{path}",
    )


def _decoded(text: str, what: str) -> str:
    decoded = unquote_to_bytes(text)
    if any(sign in decoded for sign in b"\r\n\0"):
        _refuse(f"the {what} in the URL has a line end or NUL")
    return decoded.decode("latin-1")


def _refuse(problem: str, *, hint: str | None = None) -> NoReturn:
    raise InvalidRequest(problem, place=Place(field="url"), hint=hint)
