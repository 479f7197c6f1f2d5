"""Content codings of answers, undone with a bound.

Owns `gzip`, the one coding that is asked for. Invariant: no piece of output is larger than `PIECE_BYTES_MAX`, however well
the input was packed, so a reader that counts what it gets can stop in time. Codings in layers and codings that nobody
asked for are refused. Source: RFC 9110 8.4; docs/threat-model.md.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

PIECE_BYTES_MAX = 64 * 1024
ACCEPTED = "gzip"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class BadCoding(Exception):
    """The content is not what its Content-Encoding says."""


def decode(chunks: Iterable[bytes], coding: str | None) -> Iterator[bytes]:
    """Pieces of the decoded content.

    Raises BadCoding for an unknown coding, broken or cut content.
    """
    match (coding or "identity").strip().lower():
        case "identity":
            return iter(chunks)
        case "gzip" | "x-gzip":
            return _gunzip(chunks)
        case other:
            raise BadCoding(f"content coding {other[:40]!r} was not asked for")


def _gunzip(chunks: Iterable[bytes]) -> Iterator[bytes]:
    member = zlib.decompressobj(_GZIP_WINDOW)
    started = False
    try:
        for chunk in chunks:
            rest = chunk
            while rest:
                if member.eof:
                    member = zlib.decompressobj(_GZIP_WINDOW)
                started = True
                piece = member.decompress(rest, PIECE_BYTES_MAX)
                rest = member.unused_data if member.eof else member.unconsumed_tail
                if piece:
                    yield piece
        # What does not fit into a piece stays inside the decompressor once its input is used up.
        while piece := b"" if member.eof else member.decompress(b"", PIECE_BYTES_MAX):
            yield piece
    except zlib.error:
        raise BadCoding("the gzip content is broken") from None
    if started and not member.eof:
        raise BadCoding("the gzip content is cut off")
