"""Segments of an input's history, each worth an index.

They never change. Owns where segments begin and end. Invariant: a history that grows keeps the segments that it had, for they depend on the
slices up to their end alone; only the last one is open, and it is small. Not here: what is kept of a segment (`segment_keys`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from odfabric.model.engine import SliceFile
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder

SEGMENT_SLICES_MAX = 32
"""A segment of so many slices is closed however few rows it has: reading the open one stays cheap."""
SEGMENT_ROWS_MAX = 1 << 20
"""Larger slices are cut, so that the work on a segment fits into memory."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Rows of consecutive slices, by offset. A `closed` one never changes."""

    slices: tuple[SliceFile, ...]
    begin: int
    end: int
    closed: bool

    @property
    def rows(self) -> int:
        """How many."""
        return self.end - self.begin

    def content(self, exchange: ExchangeFolder) -> bytes | None:
        """Says which rows these are, whatever their files are called.

        None if that would not be recognised later: nobody else has the file of a slice, so it is a copy made for this call. Raises Determinate.
        """
        digest = hashlib.sha256()
        for piece in self.slices:
            stat = exchange.input(piece.path).stat()
            if stat.st_nlink <= 1:
                return None
            mark = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
            digest.update(repr((mark, piece.offsets.begin, piece.offsets.end)).encode())
        digest.update(repr((self.begin, self.end)).encode())
        return digest.digest()


def segments_of(slices: Sequence[SliceFile], *, rows_min: int) -> Iterator[Segment]:
    """All rows of ascending slices, in order.

    A segment is closed when it has `rows_min`.
    """
    waiting: list[SliceFile] = []
    for piece in slices:
        if not len(piece.offsets):
            continue
        if waiting and waiting[-1].offsets.end - waiting[0].offsets.begin + len(piece.offsets) > SEGMENT_ROWS_MAX:
            yield _together(waiting, closed=True)
            waiting = []
        if len(piece.offsets) > SEGMENT_ROWS_MAX:
            for begin in range(piece.offsets.begin, piece.offsets.end, SEGMENT_ROWS_MAX):
                yield Segment((piece,), begin, min(begin + SEGMENT_ROWS_MAX, piece.offsets.end), closed=True)
            continue
        waiting.append(piece)
        rows = waiting[-1].offsets.end - waiting[0].offsets.begin
        if rows >= rows_min or len(waiting) >= SEGMENT_SLICES_MAX:
            yield _together(waiting, closed=True)
            waiting = []
    if waiting:
        yield _together(waiting, closed=False)


def _together(slices: Sequence[SliceFile], *, closed: bool) -> Segment:
    return Segment(tuple(slices), slices[0].offsets.begin, slices[-1].offsets.end, closed)
