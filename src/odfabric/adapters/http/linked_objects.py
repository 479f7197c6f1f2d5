"""Objects at URLs that peers of the Smart protocol have named.

Invariants: every URL goes through the guard of all outgoing requests; the headers that came with it go to its origin alone; a URL may be a
secret (a signed link), so messages name the object and not the URL. What arrives is hashed by the one who asked. Source: RFC-007.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from odfabric.adapters.http.egress import EXCERPT_BYTES_MAX, Egress, SizeLimit
from odfabric.errors import AccessDenied, Determinate, InvalidRequest, NotFound
from odfabric.model.transfer.smart import ObjectUrl

CHUNK_BYTES = 256 * 1024
OCTETS = "application/octet-stream"
# Their client sets them itself; a server that names them means the same.
_SET_HERE = frozenset({"content-length", "content-type", "host", "accept-encoding", "connection"})


class HttpLinkedObjects:
    """`ports.transfer.conversations.LinkedObjects`."""

    def __init__(self, egress: Egress) -> None:
        self._egress = egress

    def download(self, source: ObjectUrl, *, name: str, size_max: int, into: Path) -> int:
        """See the port."""
        limit = SizeLimit(name="object_bytes_max", bytes_max=size_max)
        try:
            with into.open("xb") as file:
                try:
                    with self._egress.get(source.url, headers=_headers(source), limit=limit) as answer:
                        _check(answer.status, name)
                        for piece in answer.body():
                            file.write(piece)
                    return file.tell()
                except BaseException:
                    with suppress(OSError):
                        into.unlink()
                    raise
        except OSError as error:
            raise Determinate(f"{into.name} cannot be written: {error.strerror}") from None

    def upload(self, target: ObjectUrl, *, name: str, path: Path) -> None:
        """See the port."""
        size = path.stat().st_size
        headers = [*_headers(target), ("Content-Type", OCTETS)]
        answer = self._egress.put(
            target.url, headers=headers, body=_pieces(path), size=size, start_bytes_max=EXCERPT_BYTES_MAX
        )
        if not 200 <= answer.status <= 299:
            _check(answer.status, name)
            raise InvalidRequest(f"object {name} was not taken: the place for it answered {answer.status}")


def _headers(url: ObjectUrl) -> list[tuple[str, str]]:
    return [(name, value) for name, value in url.headers if name.lower() not in _SET_HERE]


def _pieces(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece


def _check(status: int, name: str) -> None:
    match status:
        case 200 | 201 | 204:
            return
        case 401 | 403:
            raise AccessDenied(f"object {name}: its link is refused ({status})", hint="it may have expired: try again")
        case 404 | 410:
            raise NotFound("object", name)
        case _ if status == 429 or status >= 500:
            raise Determinate(f"object {name}: the place of it answered {status}")
        case _:
            raise InvalidRequest(f"object {name}: the place of it answered {status}")
