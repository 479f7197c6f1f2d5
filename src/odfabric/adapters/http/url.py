"""The one reading of a URL that a request is decided on and sent by.

Owns `HttpUrl` and the strict grammar behind it. Invariant: what is checked and what is connected to come from the same
value, so no second parser can see another host. Hosts are ASCII names or addresses in their usual notation; numbers that
other software also takes for IPv4 addresses (decimal, octal, hexadecimal, short) are refused by form, before any lookup.
Not here: whether the place may be reached (`guard`). Source: RFC 3986; WHATWG URL, "ends in a number"; docs/threat-model.md.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import AddressValueError, IPv4Address, IPv6Address
from typing import NoReturn
from urllib.parse import quote, urljoin

from odfabric.errors import InvalidRequest, Place

URL_CHARACTERS_MAX = 8_192
"""Long enough for presigned URLs."""
HOST_CHARACTERS_MAX = 253
DEFAULT_PORTS = {"http": 80, "https": 443}

_PARTS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/?#]*)([^#]*)(?:#.*)?", re.DOTALL)
_AUTHORITY = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([A-Za-z0-9._-]+))(?::([0-9]{0,5}))?", re.ASCII)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.ASCII)
_FORBIDDEN = re.compile(r"[\x00-\x1f\x7f\\]")
# Everything printable that may stand in a target as it is; the rest is percent-encoded as UTF-8, as browsers do.
_TARGET_SAFE = "!$%&'()*+,/:;=?@[]~"


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpUrl:
    """An http or https URL.

    `host` is in lower case and without brackets, `target` is path and query, ASCII.
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def origin(self) -> tuple[str, str, int]:
        """What credentials are bound to."""
        return self.scheme, self.host, self.port

    @property
    def host_header(self) -> str:
        """Value of the Host header: no default port, IPv6 in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def shown(self) -> str:
        """For messages: without the query, which may carry keys."""
        return f"{self.scheme}://{self.host_header}{self.target.partition('?')[0]}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host_header}{self.target}"

    def join(self, location: str) -> HttpUrl:
        """The URL that a redirect or relative reference leads to. Raises InvalidRequest."""
        _check_characters(location)
        try:
            return parse_http_url(urljoin(str(self), location))
        except ValueError:
            _refuse("the location cannot be read", hint="the server redirects to something that is not a URL")


def parse_http_url(text: str) -> HttpUrl:
    """Read an absolute http(s) URL. Raises InvalidRequest with what to write instead."""
    _check_characters(text)
    parts = _PARTS.fullmatch(text)
    if parts is None:
        _refuse("not an absolute URL", hint="write http://host/path or https://host/path")
    scheme, authority, rest = parts[1].lower(), parts[2], parts[3]
    if scheme not in DEFAULT_PORTS:
        _refuse(f"scheme {scheme!r} is not served", hint="use http or https")
    if "@" in authority:
        _refuse("credentials in a URL are refused", hint="send them as a header")
    place = _AUTHORITY.fullmatch(authority)
    if place is None:
        _refuse("the host cannot be read", hint="write other alphabets as xn--..., IPv6 addresses in brackets")
    host = _address_6(place[1]) if place[1] else _name_or_address_4(place[2].lower())
    target = quote(rest, safe=_TARGET_SAFE) or "/"
    return HttpUrl(
        scheme=scheme,
        host=host,
        port=_port(place[3], scheme),
        target=target if target.startswith("/") else f"/{target}",
    )


def _check_characters(text: str) -> None:
    if len(text) > URL_CHARACTERS_MAX:
        _refuse(f"longer than {URL_CHARACTERS_MAX} characters")
    if _FORBIDDEN.search(text) or text != text.strip():
        _refuse("control characters, backslashes and spaces around it are refused")
    try:
        text.encode()
    except UnicodeEncodeError:
        _refuse("not text: a lone surrogate")


def _port(digits: str | None, scheme: str) -> int:
    if not digits:
        return DEFAULT_PORTS[scheme]
    port = int(digits)
    if not 1 <= port <= 65_535:
        _refuse(f"port {digits} is out of range", hint="1 to 65535")
    return port


def _address_6(text: str) -> str:
    try:
        return str(IPv6Address(text))
    except AddressValueError:
        _refuse("the IPv6 address cannot be read")


def _name_or_address_4(host: str) -> str:
    labels = host.removesuffix(".").split(".")
    if _NUMBER.fullmatch(labels[-1]):
        try:
            return str(IPv4Address(host))
        except AddressValueError:
            _refuse("the host is a number", hint="write an IPv4 address as four decimal numbers without leading zeros")
    if len(host) > HOST_CHARACTERS_MAX or not all(_LABEL.fullmatch(label) for label in labels):
        _refuse("the host is not a domain name")
    return host


def _refuse(reason: str, *, hint: str | None = None) -> NoReturn:
    # The text itself is not repeated: it may hold credentials.
    raise InvalidRequest(f"URL refused: {reason}", place=Place(field="url"), hint=hint)
