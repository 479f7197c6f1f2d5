"""Single rows of Parquet files, by reading only the pages that hold them.

Arrow reads row groups whole, which for one row of a million is a million too many. This finds the pages of a column chunk by their headers,
and gives Arrow a file of these pages alone. Invariants: what is read is what Arrow reads of the whole row group, for the headers are those
that Arrow goes by; anything unusual (nested columns, pages of other kinds, chunks in other files) is left to the caller, never guessed. The
pages of a file are looked up once per process. Not here: which rows (`formats.slices.slice_parquet`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from odfabric.errors import InvalidData
from odfabric.formats.parquet.parquet_footer import MAGIC, TAIL, ChunkClaim, Codec, footer_bytes, read_footer
from odfabric.formats.parquet.parquet_pages import Encoding, PageKind, pages_of_chunk
from odfabric.formats.parquet.thrift_compact import (
    CompactReader,
    Encoded,
    Struct,
    binary,
    encoded_struct,
    i32,
    i64,
    list_of,
    struct_of,
)

Positions: TypeAlias = NDArray[np.int64]
"""Positions of rows, ascending."""

FILES_KEPT_MAX = 512
"""Files whose pages are remembered, some kilobytes each."""
FOOTER_BYTES_MAX = 4 << 20
"""Larger footers take longer to decode here than row groups to read."""
_SHARE_MAX = 2
"""Above one page in so many the row group is read whole."""
_CODED = (Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY)
_REPEATED = 2
_ELEMENT_DEPTH = 2
"""Depth at which a footer's decoder meets the elements of its schema."""

_Mark: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Chunk:
    """The pages of a column chunk with values.

    `firsts` are positions of their first rows in the row group, with the number of rows at the end; `spans` their bytes with headers;
    `coded` says which need the dictionary.
    """

    claim: ChunkClaim
    firsts: Positions
    spans: tuple[tuple[int, int], ...]
    coded: tuple[bool, ...]
    dictionary: tuple[int, int] | None

    def pages_of(self, positions: Positions) -> Positions:
        """Numbers of the pages with these rows."""
        return np.unique(np.searchsorted(self.firsts, positions, side="right") - 1)


@dataclass(frozen=True, slots=True)
class _PagedFile:
    """A file's flat columns: place among the chunks and schema element, by name."""

    groups: tuple[tuple[int, tuple[ChunkClaim, ...]], ...]
    columns: Mapping[str, tuple[int, bytes]]
    chunks: dict[tuple[int, int], _Chunk | None] = field(default_factory=dict)

    def chunk(self, file: BinaryIO, group: int, column: str) -> _Chunk | None:
        """The pages of a column in a row group; None where they are unusual."""
        at = self.columns[column][0]
        if (group, at) not in self.chunks:
            rows, claims = self.groups[group]
            self.chunks[group, at] = _pages(file, claims[at], rows)
        return self.chunks[group, at]


def page_rows(path: Path, group: int, positions: Positions, columns: Sequence[str]) -> dict[str, pa.Array]:
    """Values of some columns at some rows of a row group, by name.

    Without those that are to be read otherwise: nested columns, unusual pages, and all where most pages have some of the rows. OSError passes
    through.
    """
    with path.open("rb", buffering=0) as file:
        try:
            return _values(_paged(_mark(path), path), file, group, positions, columns)
        except (InvalidData, pa.ArrowException):
            return {}  # reading the row group says what is wrong with it
        except OSError as error:
            if error.errno is not None:
                raise
            return {}  # Arrow reports damage in this way, too


def _mark(path: Path) -> _Mark:
    """Which file is at a path, and since when it is as it is."""
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _piece(file: BinaryIO, begin: int, size: int) -> bytes:
    file.seek(begin)
    return file.read(size)


def _values(
    paged: _PagedFile, file: BinaryIO, group: int, positions: Positions, columns: Sequence[str]
) -> dict[str, pa.Array]:
    alike: dict[tuple[tuple[int, int], ...], list[tuple[str, _Chunk, Positions]]] = {}
    for name in columns:
        chunk = paged.chunk(file, group, name) if name in paged.columns else None
        if chunk is None:
            continue
        pages = chunk.pages_of(positions)
        if len(pages) * _SHARE_MAX > len(chunk.spans):
            continue
        rows = tuple((int(chunk.firsts[page]), int(chunk.firsts[page + 1])) for page in pages)
        alike.setdefault(rows, []).append((name, chunk, pages))
    found: dict[str, pa.Array] = {}
    for rows, parts in alike.items():
        begins = np.array([begin for begin, _ in rows], np.int64)
        shifts = np.cumsum([0, *(end - begin for begin, end in rows)])
        page = np.searchsorted(begins, positions, side="right") - 1
        places = pa.array(shifts[page] + positions - begins[page])
        table = _read(paged, file, int(shifts[-1]), parts)
        if table.num_rows != shifts[-1]:
            continue
        for name, column in zip(table.column_names, table.columns, strict=True):
            found[name] = pa.concat_arrays(column.take(places).chunks)
    return found


def _read(paged: _PagedFile, file: BinaryIO, rows: int, parts: Sequence[tuple[str, _Chunk, Positions]]) -> pa.Table:
    """A file of some pages, read by Arrow."""
    content, chunks, position = [MAGIC], [], len(MAGIC)
    for _, chunk, pages in parts:
        spans = [chunk.spans[page] for page in pages]
        dictionary = [chunk.dictionary] if chunk.dictionary and any(chunk.coded[page] for page in pages) else []
        own = [_piece(file, begin, end - begin) for begin, end in [*dictionary, *spans]]
        size = sum(map(len, own))
        content += own
        chunks.append(_chunk_meta(chunk, rows, position, size, len(own[0]) if dictionary else 0))
        position += size
    root = struct_of([(4, binary(b"schema")), (5, i32(len(parts)))])
    elements = [encoded_struct(paged.columns[name][1]) for name, _, _ in parts]
    group = struct_of([(1, list_of(chunks)), (2, i64(position)), (3, i64(rows))])
    footer = struct_of([(1, i32(2)), (2, list_of([root, *elements])), (3, i64(rows)), (4, list_of([group]))]).data
    content += [footer, TAIL.pack(len(footer), MAGIC)]
    with pq.ParquetFile(pa.BufferReader(b"".join(content)), pre_buffer=False) as made:
        return made.read(use_threads=False)


def _chunk_meta(chunk: _Chunk, rows: int, position: int, size: int, dictionary: int) -> Encoded:
    claim = chunk.claim
    own = [
        (1, i32(claim.physical)),
        (2, list_of([i32(each) for each in sorted(claim.encodings)])),
        (3, list_of([binary(claim.path.encode())])),
        (4, i32(claim.codec)),
        (5, i64(rows)),
        (6, i64(claim.unpacked)),
        (7, i64(size)),
        (9, i64(position + dictionary)),
    ]
    if dictionary:
        own.append((11, i64(position)))
    return struct_of([(2, i64(position)), (3, struct_of(own))])


@lru_cache(maxsize=FILES_KEPT_MAX)
def _paged(mark: _Mark, path: Path) -> _PagedFile:
    """What a footer says. Raises InvalidData.

    `mark` says which file it is, whatever is at its path later.
    """
    with path.open("rb") as file:
        data = footer_bytes(file, bytes_max=FOOTER_BYTES_MAX)
    if _mark(path) != mark:
        raise InvalidData("the file has changed while it was read")
    footer = read_footer(data)
    return _PagedFile(tuple((group.rows, group.chunks) for group in footer.groups), dict(_flat_columns(data)))


class _Elements(CompactReader):
    """Remembers where the elements of a footer's schema are."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data, "the footer", values_max=len(data))
        self.spans: list[tuple[int, int]] = []

    def struct(self, depth: int = 0) -> Struct:
        begin = self.position
        found = super().struct(depth)
        if depth == _ELEMENT_DEPTH:
            self.spans.append((begin, self.position))
        return found


def _flat_columns(data: bytes) -> Iterator[tuple[str, tuple[int, bytes]]]:
    """Columns without members, with the place of their chunk and their element."""
    reader = _Elements(data)
    elements = reader.struct().get(2)
    assert isinstance(elements, list), "the footer was read before"
    leaf, at = 0, 1
    while at < len(elements):
        element: Any = elements[at]
        name, end = element.get(4), at + 1
        if not element.get(5):
            if element.get(3, _REPEATED) != _REPEATED and isinstance(name, bytes):
                begin, after = reader.spans[at]
                yield name.decode("utf-8", "replace"), (leaf, data[begin:after])
            leaf += 1
        else:
            due = element[5]
            while due and end < len(elements):
                inner: Any = elements[end]
                members = inner.get(5) or 0
                leaf += not members
                due += members - 1
                end += 1
        at = end


def _pages(file: BinaryIO, claim: ChunkClaim, rows: int) -> _Chunk | None:
    if claim.elsewhere or claim.codec is Codec.LZO or claim.values != rows:
        return None
    firsts, spans, coded = [0], [], []
    dictionary, begin = None, claim.start

    def fetch(position: int, size: int) -> bytes:
        return _piece(file, position, size)

    for page in pages_of_chunk(fetch, claim.start, claim.start + claim.packed):
        if page.kind is PageKind.DICTIONARY and begin == claim.start:
            dictionary = begin, page.end
        elif page.has_values:
            firsts.append(firsts[-1] + page.values)
            spans.append((begin, page.end))
            coded.append(page.encoding in _CODED)
        else:
            return None
        begin = page.end
    if firsts[-1] != rows:
        return None
    return _Chunk(claim, np.array(firsts, np.int64), tuple(spans), tuple(coded), dictionary)
