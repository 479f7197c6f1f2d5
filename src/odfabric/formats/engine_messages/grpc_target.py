"""The address of an engine as gRPC reads it.

Invariant: an address is `host:port` or `unix:` and a path as the system knows it; only gRPC is given the other form, a URI.
"""

from __future__ import annotations

from urllib.parse import quote

UNIX = "unix:"


def grpc_target(address: str) -> str:
    """The gRPC target of a path. A path with `,` cannot be expressed.

    In a URI `%`, `?` and `#` mean something, in a path they are characters of a name.
    """
    return UNIX + quote(address.removeprefix(UNIX)) if address.startswith(UNIX) else address
