"""Logical hash of tables ("arrow-digest" V0, codec arrow0-sha3-256).

Equal for equal rows, however they are encoded.

Owns the walk over columns and structs and the reading of files in bounded memory. Invariant: the hash depends on names,
nesting, types, values and row order alone, not on batches, row groups, compression or widths of string offsets. The one
exception is a nullable struct with nullable members, whose hash depends on the reader's batches by the format's own rule;
such a digest is marked as not reproducible. Source: specification, "Data Hashing"; value bytes: `logical_hash_values`.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

import pyarrow as pa
from pyarrow import types

from odfabric.errors import IncompatibleSchema, Place
from odfabric.formats.parquet.parquet_reading import BATCH_ROWS, Source, arrow_schema_of, batches_of, open_parquet
from odfabric.formats.slices.arrow_ipc import open_ipc
from odfabric.formats.slices.logical_hash_values import Mask, plain_type, type_bytes, validity, value_bytes
from odfabric.model.multihash import ARROW0_SHA3_256, Multihash

STRUCT_BATCH_ROWS = 10_000
"""Batches in which the reference reads files; part of the format for nullable structs."""

PIECE_BYTES_MAX = 64 << 20
"""Rows of one column whose streams are built at once have about this many bytes at most, single rows aside."""

ColumnMap: TypeAlias = Callable[[Callable[[int], None], Iterable[int]], Iterable[None]]
"""Calls a function for each column number; `map`, or that of a thread pool, since columns are independent."""


@dataclass(frozen=True, slots=True)
class LogicalDigest:
    """A logical hash, its rows, and columns (usually none) that readers may differ on."""

    multihash: Multihash
    rows: int
    not_reproducible: tuple[str, ...] = ()


class LogicalHasher:
    """Hash of a stream of batches, in memory bounded by one batch."""

    def __init__(self, schema: pa.Schema) -> None:
        """Begin a table.

        Raises IncompatibleSchema naming a column whose type has no logical hash.
        """
        self._schema = schema
        self._columns = [_Column(field) for field in schema]
        self._rows = 0

    def update(self, batch: pa.RecordBatch, *, column_map: ColumnMap = map) -> None:
        """Add rows; columns by position, with the types of the schema (else ValueError)."""
        if [field.type for field in batch.schema] != [field.type for field in self._schema]:
            raise ValueError(f"the batch has other types than the table: {batch.schema} instead of {self._schema}")
        for _ in column_map(lambda index: self._columns[index].update(batch.column(index)), range(len(self._columns))):
            pass
        self._rows += batch.num_rows

    def finish(self) -> LogicalDigest:
        """The digest of all rows so far; the hasher is not to be used after it."""
        combined = hashlib.sha3_256()
        for column in self._columns:
            for name, level in column.names:
                encoded = name.encode()
                combined.update(struct.pack("<Q", len(encoded)) + encoded + struct.pack("<Q", level))
        for column in self._columns:
            for digest in column.finish():
                combined.update(digest)
        tainted = tuple(name for column in self._columns for name in column.not_reproducible)
        return LogicalDigest(Multihash(ARROW0_SHA3_256, combined.digest()), self._rows, tainted)


def logical_hash_of_parquet(source: Source, *, column_map: ColumnMap = map) -> LogicalDigest:
    """Hash of a Parquet file, in memory that does not grow with it.

    Raises InvalidData, IncompatibleSchema.
    """
    with open_parquet(source) as file:
        return _hash(arrow_schema_of(file), batches_of(file), column_map)


def logical_hash_of_ipc(source: Source, *, column_map: ColumnMap = map) -> LogicalDigest:
    """Hash of an Arrow IPC file or stream. Raises InvalidData, IncompatibleSchema."""
    with open_ipc(source) as reader:
        return _hash(reader.schema, reader.batches, column_map)


def _hash(schema: pa.Schema, batches: Iterator[pa.RecordBatch], column_map: ColumnMap) -> LogicalDigest:
    hasher = LogicalHasher(schema)
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS):
            hasher.update(batch.slice(start, BATCH_ROWS), column_map=column_map)
    return hasher.finish()


class _Leaf:
    """A non-struct field: its place below its column, and the digest of its values."""

    def __init__(self, path: tuple[int, ...], name: str, data_type: pa.DataType) -> None:
        self.path, self.name, self.type = path, name, plain_type(data_type)
        try:
            head = type_bytes(self.type)
        except ValueError as error:
            raise IncompatibleSchema(
                f"Column `{name}`: {error}", place=Place(field=name), hint="cast it to a supported type"
            ) from None
        self.digest = hashlib.sha3_256(head)

    def update(self, array: pa.Array, valid: Mask | None) -> None:
        if array.type != self.type:
            array = array.cast(self.type)
        if len(array) > 1 and array.nbytes > PIECE_BYTES_MAX:
            half = len(array) // 2
            self.update(array.slice(0, half), None if valid is None else valid[:half])
            self.update(array.slice(half), None if valid is None else valid[half:])
        else:
            self.digest.update(value_bytes(array, valid).data)


class _Column:
    """A top-level column with all leaves below it."""

    def __init__(self, field: pa.Field) -> None:
        self.names = list(_names(field, 0))
        self._leaves = list(_leaves(field, (), field.name))
        self._is_struct = types.is_struct(field.type)
        self._waiting: list[pa.Array] = []
        self._tainted: dict[str, None] = {}

    @property
    def not_reproducible(self) -> tuple[str, ...]:
        return tuple(self._tainted)

    def update(self, array: pa.Array) -> None:
        if not self._is_struct:
            self._leaves[0].update(array, validity(array))
            return
        self._waiting.append(array)
        if sum(map(len, self._waiting)) >= STRUCT_BATCH_ROWS:
            self._drain(at_least=STRUCT_BATCH_ROWS)

    def finish(self) -> Iterator[bytes]:
        self._drain(at_least=1)
        for leaf in self._leaves:
            yield leaf.digest.digest()

    def _drain(self, *, at_least: int) -> None:
        """Hash waiting rows in the format's batch size, leaving fewer than `at_least`."""
        if not self._waiting:
            return
        rows, start = pa.concat_arrays(self._waiting), 0
        while len(rows) - start >= at_least:
            self._update_leaves(rows.slice(start, STRUCT_BATCH_ROWS))
            start += STRUCT_BATCH_ROWS
        self._waiting = [rows.slice(start)] if start < len(rows) else []

    def _update_leaves(self, array: pa.Array) -> None:
        for leaf in self._leaves:
            values, valid = array, validity(array)
            for index in leaf.path:
                values = values.field(index)
                inner = validity(values)
                if valid is not None and inner is not None:
                    # The format takes the union of the two validities: only a slot that is null in both is null. If
                    # members are null beyond their structs, it matters what a reader puts under a null struct.
                    if bool((valid & ~inner).any()):
                        self._tainted[leaf.name] = None
                    valid = valid | inner
                else:
                    valid = inner if valid is None else valid
            leaf.update(values, valid)


def _names(field: pa.Field, level: int) -> Iterator[tuple[str, int]]:
    yield field.name, level
    if types.is_struct(field.type):
        for member in field.type:
            yield from _names(member, level + 1)


def _leaves(field: pa.Field, path: tuple[int, ...], name: str) -> Iterator[_Leaf]:
    if not types.is_struct(field.type):
        yield _Leaf(path, name, field.type)
        return
    for index, member in enumerate(field.type):
        yield from _leaves(member, (*path, index), f"{name}.{member.name}")
