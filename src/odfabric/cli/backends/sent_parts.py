"""Send parts of a large file to the object store of a node, by signed URLs.

Owns the requests to the store. Invariant: they carry nothing but the bytes of a part - no token of the node - and no redirect is followed.
A store that cannot be reached from here is no failure: the caller sends chunks to the node. Source: `odfabric_api.routes.uploads`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import httpx

from odfabric.cli.backends.node_connection import ANSWER_S_MAX, CONNECT_S_MAX, LOOK_EVERY_S_MAX
from odfabric.errors import Determinate

PARTS_S_MAX = 120.0
"""How long a part may fail again and again."""
ATTEMPTS_BEFORE_CHUNKS = 2
"""A store that took no part in so many attempts counts as out of reach."""
_PIECE_BYTES = 1024 * 1024

ListParts = Callable[[int], dict[str, Any]]
"""What the node says of the parts from a number on."""


class StoreNotReached(Exception):
    """Nothing gets through to the object store: it may be out of reach from here."""


def send_parts(
    list_parts: ListParts,
    file: BinaryIO,
    *,
    http: httpx.Client | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> list[dict[str, Any]]:
    """Number and tag of every part, once all are there.

    Raises StoreNotReached before anything was sent, Determinate once a part has failed for too long.
    """
    timeout = httpx.Timeout(ANSWER_S_MAX, connect=CONNECT_S_MAX)
    store = http or httpx.Client(timeout=timeout, trust_env=False, follow_redirects=False)
    try:
        return _sent(list_parts, file, store, sleep)
    finally:
        if http is None:
            store.close()


def _sent(
    list_parts: ListParts, file: BinaryIO, store: httpx.Client, sleep: Callable[[float], None]
) -> list[dict[str, Any]]:
    done: dict[int, str] = {}
    first, got_through_at, failures = 1, time.monotonic(), 0
    while True:
        page = list_parts(first)
        for part in page["parts"]:
            tag = part["tag"]
            if tag is None:
                tag = _put(store, part, file)
                if tag is None:
                    break
                got_through_at = time.monotonic()
            done[part["number"]] = tag
            first = part["number"] + 1
        else:
            if page["next"] is None:
                return [{"number": number, "tag": tag} for number, tag in sorted(done.items())]
            continue
        failures += 1
        if not done and failures == ATTEMPTS_BEFORE_CHUNKS:
            raise StoreNotReached
        if time.monotonic() - got_through_at > PARTS_S_MAX:
            message = f"part {first} of {page['count']} does not get through to the object store"
            raise Determinate(message, hint="run the command again: it goes on with what is missing")
        # The next look at the parts has fresh URLs: those at hand may have ended.
        sleep(LOOK_EVERY_S_MAX)


def _put(store: httpx.Client, part: dict[str, Any], file: BinaryIO) -> str | None:
    """The tag of the part, None if it did not get through."""
    file.seek(part["offset"])
    sent = {"content-length": str(part["size"])}
    try:
        answer = store.put(part["url"], content=_pieces(file, part["size"]), headers=sent)
    except httpx.HTTPError:
        return None
    return answer.headers.get("etag") if answer.is_success else None


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    while size and (piece := file.read(min(size, _PIECE_BYTES))):
        size -= len(piece)
        yield piece
