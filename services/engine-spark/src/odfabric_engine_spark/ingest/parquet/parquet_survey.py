"""What the pages of a Parquet file hold, looked at before any of them is decoded.

Owns the limits on sizes of strangers' Parquet and the checks that need no values: every page lies inside its column chunk, counts add
up to those of the footer, encodings are those that the footer lists, checksums match. Invariant: footers are claims; what a reader will
allocate follows from page headers, which decoders hold pages to. Not here: decoding (`parquet_rows`), what values say (`second_reader`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import types

from odfabric.errors import InvalidData, LimitExceeded, Place
from odfabric.formats.parquet.parquet_footer import (
    MAGIC,
    NOT_PARQUET,
    ChunkClaim,
    Codec,
    Footer,
    Physical,
    footer_bytes,
    read_footer,
)
from odfabric.formats.parquet.parquet_pages import Encoding, Page, PageKind, check_crc, pages_of_chunk
from odfabric_engine_spark.spark.calls.call import EngineCall

DAMAGED = "The file is damaged"
DAMAGED_HINT = (
    "write or send the file again; with page checksums (pyarrow: write_page_checksum=True) damage is found page by page"
)

_WIDTHS = {
    Physical.BOOLEAN: 1,
    Physical.INT32: 4,
    Physical.INT64: 8,
    Physical.INT96: 12,
    Physical.FLOAT: 4,
    Physical.DOUBLE: 8,
}
_INDEX_BYTES = 4
_LEVEL_BYTES = 4
"""Definition and repetition level of a value in Arrow's reader."""
_BY_DICTIONARY = (Encoding.PLAIN_DICTIONARY, Encoding.RLE_DICTIONARY)
_DELTA_TEXTS = (Encoding.DELTA_BYTE_ARRAY, Encoding.DELTA_LENGTH_BYTE_ARRAY)
_CODECS = {
    Codec.SNAPPY: "snappy",
    Codec.GZIP: "gzip",
    Codec.BROTLI: "brotli",
    Codec.ZSTD: "zstd",
    Codec.LZ4_RAW: "lz4_raw",
}
_ARROW_ONLY = frozenset({Codec.BROTLI})
"""Codecs that Arrow unpacks and Spark does not."""
_UNREAD = frozenset({Codec.LZO})
_LENGTH = struct.Struct("<I")
_CHECK_EVERY_PAGES = 1024
WORST_BATCHES = 8
"""So many times the usual size a batch may have whose rows turn out as large as pages allow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """A column of primitive values below the top-level column `column`.

    `width` None means texts or bytes.
    """

    index: int
    path: str
    column: str
    physical: Physical
    width: int | None
    repeated: bool


@dataclass(frozen=True, slots=True)
class RowGroup:
    """A row group: starts at `first_row`; a row has at most `row_bytes` decoded."""

    index: int
    first_row: int
    rows: int
    row_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """What decoding needs to know.

    `leaves` are those of the columns that were looked at. `as_dictionaries` are paths of leaves whose values repeat too much to be decoded before they are counted. `unchecked` are the
    columns of which a page carries no checksum, with the bytes that a reader takes for each; `arrow_only` those that Spark has no codec for.
    """

    footer: Footer
    groups: tuple[RowGroup, ...]
    leaves: tuple[Leaf, ...]
    as_dictionaries: tuple[str, ...]
    unchecked: dict[str, int]
    arrow_only: frozenset[str]
    unpacked: int


def leaves_of(file: pq.ParquetFile, name: str) -> list[Leaf]:
    """The leaves of all top-level columns, in the order of the file.

    Raises InvalidData if Arrow sees other columns than Parquet.
    """
    owners = [name for item in file.schema_arrow for name in [item.name] * _count(item.type)]
    columns = [file.schema.column(index) for index in range(len(file.schema))]
    if len(owners) != len(columns):
        reason = "the schema that its writer added does not describe the columns of the file"
        raise damaged(reason, file=name, column=None)
    return [
        Leaf(
            index=index,
            path=column.path,
            column=owner,
            physical=(physical := Physical[column.physical_type]),
            width=_WIDTHS.get(physical, column.length if physical is Physical.FIXED_LEN_BYTE_ARRAY else None),
            repeated=column.max_repetition_level > 0,
        )
        for index, (column, owner) in enumerate(zip(columns, owners, strict=True))
    ]


def footer_of(path: Path, name: str, *, bytes_max: int) -> Footer:
    """The footer of a file that begins and ends as one of Parquet.

    Raises InvalidData, LimitExceeded.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            raise InvalidData(NOT_PARQUET, place=Place(file=name), hint=DAMAGED_HINT)
        try:
            data = footer_bytes(file, bytes_max=bytes_max)
        except InvalidData as error:
            raise InvalidData(error.message, place=Place(file=name), hint=DAMAGED_HINT) from None
        except LimitExceeded as error:
            limit = "parquet_footer_bytes_max"
            raise LimitExceeded(error.message, limit=limit, maximum=bytes_max, place=Place(file=name)) from None
    try:
        return read_footer(data)
    except InvalidData as error:
        raise damaged(error.message, file=name, column=None) from None


def survey(
    path: Path,
    name: str,
    file: pq.ParquetFile,
    footer: Footer,
    columns: Sequence[str],
    call: EngineCall,
    *,
    unpacked: int = 0,
) -> Survey:
    """Looks at every page of `columns`; files before it have taken `unpacked` bytes.

    Raises InvalidData with file, column and row group, LimitExceeded.
    """
    wanted = set(columns)
    leaves = leaves_of(file, name)
    for number, group in enumerate(footer.groups, 1):
        told = [(chunk.path, chunk.physical) for chunk in group.chunks]
        if told != [(leaf.path, leaf.physical) for leaf in leaves]:
            raise damaged(f"row group {number} has other columns than the schema", file=name, column=None)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        chosen = [leaf for leaf in leaves if leaf.column in wanted]
        return _Surveyor(descriptor, name, footer, chosen, call, unpacked=unpacked).run()
    finally:
        os.close(descriptor)


def damaged(reason: str, *, file: str, column: str | None, group: RowGroup | None = None) -> InvalidData:
    """The refusal of a file that is not as its writer left it, or never was whole."""
    at = "" if group is None else f" in row group {group.index + 1}"
    return InvalidData(f"{DAMAGED}{at}: {reason}", place=Place(file=file, field=column), hint=DAMAGED_HINT)


@dataclass(slots=True)
class _Chunk:
    """What the pages of one leaf in one row group say."""

    values: int = 0
    rows: int = 0
    tells_rows: bool = True
    pages: int = 0
    largest: int = 0
    packed: int = 0
    unchecked: bool = False
    longest: int = 0
    """Longest value of the dictionary."""
    coded: int = 0
    """Values that are numbers of dictionary entries."""
    plain: int = 0
    """Most bytes of one value beside the dictionary, on the average of its page."""
    grown: int = 0
    """Most bytes of all values beside the dictionary."""
    delta: bool = False
    has_dictionary: bool = False
    dictionary: int = 0


@dataclass(slots=True)
class _Surveyor:
    """One walk over a file."""

    descriptor: int
    name: str
    footer: Footer
    leaves: Sequence[Leaf]
    call: EngineCall
    pages: int = 0
    unpacked: int = 0
    chunks: dict[tuple[int, int], _Chunk] = field(default_factory=dict)

    def run(self) -> Survey:
        """All row groups."""
        maximum = self.call.settings.parquet_pages_max
        groups = self.footer.groups
        if len(groups) * max(1, len(self.leaves)) > maximum:
            raise self._too_much("Too many column chunks", "parquet_pages_max", maximum, None)
        starts = list(accumulate((group.rows for group in groups), initial=0))
        if starts[-1] != self.footer.rows:
            reason = f"its row groups have {starts[-1]} rows, its footer says {self.footer.rows}"
            raise damaged(reason, file=self.name, column=None)
        bare = [RowGroup(index, starts[index], group.rows) for index, group in enumerate(groups)]
        self._check_claims(bare)
        for group in bare:
            for leaf in self.leaves:
                self.chunks[group.index, leaf.index] = self._chunk(group, leaf)
        by_dictionary = {leaf.index for leaf in self.leaves if self._is_by_dictionary(leaf, bare)}
        return Survey(
            footer=self.footer,
            groups=tuple(self._sized(group, by_dictionary) for group in bare),
            leaves=tuple(self.leaves),
            as_dictionaries=tuple(leaf.path for leaf in self.leaves if leaf.index in by_dictionary),
            unchecked=self._unchecked(bare),
            arrow_only=frozenset(leaf.column for leaf in self.leaves if not self._codecs(leaf).isdisjoint(_ARROW_ONLY)),
            unpacked=self.unpacked,
        )

    def _check_claims(self, groups: Sequence[RowGroup]) -> None:
        """What the footer itself calls too much is not looked at."""
        maximum = self.call.settings.input_unpacked_bytes_max
        claimed = self.unpacked
        for group in groups:
            chunks = self.footer.groups[group.index].chunks
            claimed += sum(chunks[leaf.index].unpacked for leaf in self.leaves)
            if claimed > maximum:
                raise self._too_much("Unpacked, the file is too large", "input_unpacked_bytes_max", maximum, None)

    def _codecs(self, leaf: Leaf) -> frozenset[Codec]:
        return frozenset(group.chunks[leaf.index].codec for group in self.footer.groups)

    def _chunk(self, group: RowGroup, leaf: Leaf) -> _Chunk:
        claim = self.footer.groups[group.index].chunks[leaf.index]
        found = _Chunk()
        if claim.elsewhere:
            raise damaged(
                "a column is encrypted or lies in another file", file=self.name, column=leaf.column, group=group
            )
        if claim.codec in _UNREAD:
            raise InvalidData(
                f"Column `{leaf.column}` is compressed by {claim.codec.name}, which this node cannot unpack",
                place=Place(file=self.name, field=leaf.column),
                hint="write it with another codec: snappy, gzip, brotli, zstd or lz4",
            )
        if not group.rows and not claim.values:
            return found  # writers differ in what such a chunk has, and no reader looks at it
        try:
            for page in pages_of_chunk(self._fetch, claim.start, claim.start + claim.packed):
                self._page(page, found, claim, leaf)
        except InvalidData as error:
            if error.place.file is not None:
                raise
            reason = f"{error.message} (page {found.pages + 1} of the column)"
            raise damaged(reason, file=self.name, column=leaf.column, group=group) from None
        wrong = _contradiction(found, claim, group, leaf)
        if wrong:
            raise damaged(wrong, file=self.name, column=leaf.column, group=group)
        return found

    def _page(self, page: Page, found: _Chunk, claim: ChunkClaim, leaf: Leaf) -> None:
        self._count(page, leaf)
        if (claim.codec is Codec.UNCOMPRESSED or not page.compressed) and page.packed != page.unpacked:
            raise InvalidData(f"a page of {page.packed} bytes is called {page.unpacked} bytes, and is not compressed")
        packed = b""
        if page.crc is not None or (page.kind is PageKind.DICTIONARY and leaf.width is None):
            packed = self._fetch(page.start, page.packed)
            if len(packed) < page.packed:
                raise InvalidData("a page is cut off")
        if not check_crc(page, packed):
            raise InvalidData("a page does not match its checksum")
        found.unchecked |= page.crc is None
        found.packed += page.packed
        if page.kind is PageKind.DICTIONARY:
            if found.pages:
                raise InvalidData("a dictionary behind other pages")
            found.has_dictionary, found.dictionary = True, page.unpacked
            found.longest = leaf.width if leaf.width is not None else _longest(page, packed, claim.codec)
        elif page.has_values:
            found.largest = max(found.largest, page.unpacked)
            _add_values(page, found, claim, leaf)
        found.pages += 1

    def _count(self, page: Page, leaf: Leaf) -> None:
        settings = self.call.settings
        self.pages += 1
        self.unpacked += page.unpacked
        if self.pages % _CHECK_EVERY_PAGES == 0 or page.packed > settings.batch_bytes:
            self.call.check()
        if self.pages > settings.parquet_pages_max:
            raise self._too_much("Too many pages", "parquet_pages_max", settings.parquet_pages_max, leaf)
        if max(page.unpacked, page.packed) > settings.parquet_page_bytes_max:
            maximum = settings.parquet_page_bytes_max
            raise self._too_much("A page is too large", "parquet_page_bytes_max", maximum, leaf)
        if self.unpacked > settings.input_unpacked_bytes_max:
            maximum = settings.input_unpacked_bytes_max
            raise self._too_much("Unpacked, the file is too large", "input_unpacked_bytes_max", maximum, leaf)

    def _is_by_dictionary(self, leaf: Leaf, groups: Sequence[RowGroup]) -> bool:
        """Whether values so long repeat that a batch needs Arrow's dictionary form.

        Without it the batch might not fit into memory.
        """
        settings = self.call.settings
        chunks = [self.chunks[group.index, leaf.index] for group in groups]
        if leaf.width is not None or any(chunk.delta for chunk in chunks):
            return False
        worst = WORST_BATCHES * settings.batch_bytes
        return any(
            chunk.longest * (chunk.coded if leaf.repeated else min(settings.batch_rows, chunk.coded)) > worst
            for chunk in chunks
        )

    def _sized(self, group: RowGroup, by_dictionary: set[int]) -> RowGroup:
        """The row group with the size of its rows.

        Raises LimitExceeded if a part of it that is held at once may be too large.
        """
        row_bytes = held = 0
        for leaf in self.leaves:
            chunk = self.chunks[group.index, leaf.index]
            coded = _INDEX_BYTES if leaf.index in by_dictionary else chunk.longest
            held += chunk.largest + chunk.dictionary
            if leaf.repeated:
                # Nobody knows how many items a row has before the list is decoded.
                grown = chunk.grown + chunk.coded * coded + chunk.values * (_LEVEL_BYTES + _INDEX_BYTES)
                held += grown
                row_bytes += grown // max(1, group.rows)
            else:
                row_bytes += max(coded, chunk.plain)
            if held + row_bytes > self.call.settings.parquet_decoded_bytes_max:
                raise self._too_much(
                    f"Row group {group.index + 1} may take too much memory: write smaller pages or row groups",
                    "parquet_decoded_bytes_max",
                    self.call.settings.parquet_decoded_bytes_max,
                    leaf,
                )
        return RowGroup(group.index, group.first_row, group.rows, max(1, row_bytes))

    def _unchecked(self, groups: Sequence[RowGroup]) -> dict[str, int]:
        """Top-level columns with pages without checksum, and Spark's memory for each."""
        found: dict[str, int] = {}
        unchecked = {
            leaf.column
            for leaf in self.leaves
            if any(self.chunks[group.index, leaf.index].unchecked for group in groups)
        }
        for group in groups:
            sizes: dict[str, int] = {}
            for leaf in self.leaves:
                chunk = self.chunks[group.index, leaf.index]
                sizes[leaf.column] = sizes.get(leaf.column, 0) + chunk.packed + chunk.dictionary + 2 * chunk.largest
            for column in unchecked:
                found[column] = max(found.get(column, 0), sizes[column])
        return found

    def _fetch(self, position: int, count: int) -> bytes:
        return os.pread(self.descriptor, count, position)

    def _too_much(self, message: str, limit: str, maximum: int, leaf: Leaf | None) -> LimitExceeded:
        place = Place(file=self.name, field=leaf.column if leaf else None)
        return LimitExceeded(message, limit=limit, maximum=maximum, place=place)


def _count(arrow: pa.DataType) -> int:
    if isinstance(arrow, pa.BaseExtensionType):
        return _count(arrow.storage_type)
    return sum(_count(arrow.field(index).type) for index in range(arrow.num_fields)) if types.is_nested(arrow) else 1


def _contradiction(found: _Chunk, claim: ChunkClaim, group: RowGroup, leaf: Leaf) -> str | None:
    """What pages and footer say of one chunk that cannot both be true."""
    if found.values != claim.values:
        return f"the pages have {found.values} values, the footer says {claim.values}"
    if not leaf.repeated and found.values != group.rows:
        return f"the column has {found.values} values in {group.rows} rows"
    if found.tells_rows and found.pages and found.rows != group.rows:
        return f"the pages have {found.rows} rows, the row group has {group.rows}"
    if found.coded and not found.has_dictionary:
        return "values refer to a dictionary that is not there"
    return None


def _add_values(page: Page, found: _Chunk, claim: ChunkClaim, leaf: Leaf) -> None:
    encoding = page.encoding
    assert encoding is not None
    same = _BY_DICTIONARY if encoding in _BY_DICTIONARY else (encoding,)
    found.coded += page.values if encoding in _BY_DICTIONARY else 0
    if claim.encodings.isdisjoint(same):
        raise InvalidData(f"a page is encoded as {encoding.name}, which the footer does not list")
    if any(each not in (Encoding.RLE, Encoding.BIT_PACKED) for each in page.level_encodings):
        raise InvalidData("a page has levels of an unknown encoding")
    found.values += page.values
    if page.rows is None:
        found.tells_rows = False
    else:
        found.rows += page.rows
    if leaf.width is not None:
        found.plain, each = leaf.width, leaf.width
    elif encoding in _BY_DICTIONARY:
        return
    else:
        found.delta |= encoding in _DELTA_TEXTS
        # A value by DELTA_BYTE_ARRAY may repeat all that came before it in its page.
        each = page.unpacked if encoding is Encoding.DELTA_BYTE_ARRAY else -(-page.unpacked // max(1, page.values))
        found.plain = max(found.plain, each)
    if encoding not in _BY_DICTIONARY:
        found.grown += page.values * each


def _longest(page: Page, packed: bytes, codec: Codec) -> int:
    """The longest text of a dictionary.

    Raises InvalidData if it does not have the values that it should have.
    """
    data = packed
    if codec is not Codec.UNCOMPRESSED:
        known = _CODECS.get(codec)
        if known is None:
            return page.unpacked
        try:
            data = pa.Codec(known).decompress(packed, page.unpacked, asbytes=True)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InvalidData(f"a dictionary cannot be unpacked: {str(error).splitlines()[0]}") from None
    position = longest = 0
    try:
        for _ in range(page.values):
            (length,) = _LENGTH.unpack_from(data, position)
            position += _LENGTH.size + length
            longest = max(longest, length)
    except struct.error:
        position = len(data) + 1
    if position != len(data):
        raise InvalidData("a dictionary does not have the values that its page should have")
    return longest
