"""Model nouns to FlatBuffers, in the specification's one byte order.

Owns the building: back to front, children of a table first and in slot order, then its fields in slot order; vtables are
shared, nothing else is. Invariant: equal values give equal bytes. Not here: the envelope and its version (`formats.blocks.block`).
Source: FlatBuffers internals; order rules of the specification's reference schema.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum
from functools import lru_cache
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from odfabric.formats.blocks.block_tables import Kind, Slot
from odfabric.formats.blocks.flatbuffer_layout import MOMENT_ALIGNMENT, SHAPES, Field, TableShape, layout
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_DAY, NANOS_PER_SECOND, Instant
from odfabric.model.multihash import DIGEST_BYTES_MAX, SHA3_256, Multihash

DAYS_CACHED_MAX = 4096

_UINT32 = struct.Struct("<I").pack
_MOMENT = struct.Struct("<iH2xII").pack
_SHA3_256_HEAD = Multihash(SHA3_256, bytes(DIGEST_BYTES_MAX)).to_bytes()[:-DIGEST_BYTES_MAX]
_ZEROS = bytes(8)


class Unencodable(ValueError):
    """A value has no binary form. The text says which field and why."""


class FlatBufferWriter:
    """One FlatBuffer under construction.

    Positions are distances from its end, in bytes.
    """

    __slots__ = ("_alignment", "_chunks", "_depth_left", "_moment_alignment", "_used", "_vtables")

    def __init__(self, *, depth_max: int, moment_alignment: int = MOMENT_ALIGNMENT) -> None:
        self._chunks: list[bytes] = []
        self._used = 0
        self._alignment = 4
        self._depth_left = depth_max
        self._moment_alignment = moment_alignment
        self._vtables: dict[bytes, int] = {}

    def finish(self, root: object) -> bytes:
        """The whole buffer with `root`, a noun of the model, as its root table.

        Raises Unencodable for tables nested too deeply, numbers out of range, texts that are not Unicode.
        """
        position = self.put_table(root)
        padding = -(self._used + 4) % self._alignment
        self._chunks.append(_UINT32(self._used + padding + 4 - position) + _ZEROS[:padding])
        self._chunks.reverse()
        return b"".join(self._chunks)

    def put_table(self, noun: object) -> int:
        """Write the table of a noun after its children; its position."""
        plan = _PLANS[type(noun)]
        if self._depth_left == 0:
            raise Unencodable(f"{plan.name}: nested too deeply")
        self._depth_left -= 1
        present = 0
        cells: list[Any] = []
        for step, value in zip(plan.steps, plan.values(noun), strict=True):
            if value is None:
                continue
            name, bits, elided_if_zero, tags, put = step
            try:
                cell = put(self, value)
            except (struct.error, UnicodeEncodeError) as error:
                raise Unencodable(f"{plan.name}.{name}: {error}") from None
            if elided_if_zero and not cell:
                continue
            present |= bits
            if tags is not None:
                cells.append(tags[type(value)])
            cells.append(cell)
        if present & plan.shape.required != plan.shape.required:
            raise Unencodable(f"{plan.name}: a required field has no value")
        self._depth_left += 1
        return self._put_object(plan, present, cells)

    def _put_object(self, plan: _TablePlan, present: int, cells: list[Any]) -> int:
        used = self._used
        found = layout(plan.shape, present, used & 7, self._moment_alignment)
        placed = [used + far - cell if far else cell for cell, far in zip(cells, found.distances, strict=True)]
        placed.reverse()
        position = self._used = used + found.size
        if found.alignment > self._alignment:
            self._alignment = found.alignment
        vtable = found.vtable
        shared = self._vtables.get(vtable)
        try:
            chunk = found.pack(len(vtable) if shared is None else shared - position, *placed)
        except struct.error as error:
            raise Unencodable(f"{plan.name}: a number is out of range: {error}") from None
        self._chunks.append(chunk)
        if shared is None:
            self._chunks.append(vtable)
            self._used = self._vtables[vtable] = position + len(vtable)
        return position

    def put_bytes(self, data: bytes) -> int:
        """Write a vector of bytes; its position."""
        size = len(data)
        padding = -(self._used + size) % 4
        self._chunks.append(_UINT32(size) + data + _ZEROS[:padding])
        self._used += size + padding + 4
        return self._used

    def put_text(self, text: str) -> int:
        """Write a string, with a terminating zero that its length does not count.

        Its position.
        """
        data = text.encode()
        size = len(data)
        padding = -(self._used + size + 1) % 4
        self._chunks.append(_UINT32(size) + data + _ZEROS[: padding + 1])
        self._used += size + padding + 5
        return self._used

    def put_offsets(self, positions: list[int]) -> int:
        """Write a vector of offsets to what was written before; its position."""
        count = len(positions)
        padding = -self._used % 4
        end = self._used + padding + 4 * count
        offsets = [end - 4 * index - position for index, position in enumerate(positions)]
        self._chunks.append(struct.pack(f"<{count + 1}I", count, *offsets) + _ZEROS[:padding])
        self._used = end + 4
        return self._used


_Put: TypeAlias = Callable[[FlatBufferWriter, Any], Any]


class _Step(NamedTuple):
    """How a field is written: `put` gives the table's number or the offset's target."""

    name: str
    bits: int
    elided_if_zero: bool
    tags: dict[type, int] | None
    put: _Put


class _TablePlan(NamedTuple):
    """How one noun is written; `values` gives its fields in slot order."""

    name: str
    shape: TableShape
    steps: tuple[_Step, ...]
    values: Callable[[Any], tuple[Any, ...]]


def _number(_: FlatBufferWriter, value: int) -> int:
    return value


def _enum(_: FlatBufferWriter, value: Enum) -> Any:
    return value.value


@lru_cache(maxsize=DAYS_CACHED_MAX)
def _year_day(day: int) -> tuple[int, int]:
    return Instant(day * NANOS_PER_DAY).year_day()


def _instant(_: FlatBufferWriter, value: Instant) -> bytes:
    day, nanos = divmod(value.epoch_ns, NANOS_PER_DAY)
    second, nanos = divmod(nanos, NANOS_PER_SECOND)
    return _MOMENT(*_year_day(day), second, nanos)


def _hash(writer: FlatBufferWriter, value: Multihash) -> int:
    if value.code == SHA3_256 and len(value.digest) == DIGEST_BYTES_MAX:
        return writer.put_bytes(_SHA3_256_HEAD + value.digest)
    return writer.put_bytes(value.to_bytes())


def _dataset_id(writer: FlatBufferWriter, value: DatasetId) -> int:
    return writer.put_bytes(value.to_bytes())


def _texts(writer: FlatBufferWriter, values: tuple[str, ...]) -> int:
    return writer.put_offsets([writer.put_text(value) for value in values])


def _tables(writer: FlatBufferWriter, values: tuple[object, ...]) -> int:
    return writer.put_offsets([writer.put_table(value) for value in values])


_PUTS: dict[Kind, _Put] = {
    Kind.BOOL: _number,
    Kind.INT32: _number,
    Kind.UINT32: _number,
    Kind.INT64: _number,
    Kind.UINT64: _number,
    Kind.ENUM: _enum,
    Kind.INSTANT: _instant,
    Kind.TEXT: FlatBufferWriter.put_text,
    Kind.DATASET_REF: FlatBufferWriter.put_text,
    Kind.JSON_OBJECT: FlatBufferWriter.put_text,
    Kind.BYTES: FlatBufferWriter.put_bytes,
    Kind.HASH: _hash,
    Kind.DATASET_ID: _dataset_id,
    Kind.TABLE: FlatBufferWriter.put_table,
    Kind.UNION: FlatBufferWriter.put_table,
    Kind.TEXTS: _texts,
    Kind.TABLES: _tables,
}


def _put_of(slot: Slot) -> _Put:
    if slot.kind is not Kind.UNIONS:
        return _PUTS[slot.kind]
    assert slot.table is not None
    wrapper = slot.table
    return lambda writer, values: _tables(writer, tuple(wrapper(value=value) for value in values))


def _step(field: Field) -> _Step:
    slot = field.slot
    tags = None
    if slot.kind is Kind.UNION and slot.union is not None:
        tags = {member: tag for tag, member in enumerate(slot.union.members, 1)}
    return _Step(slot.name, field.bits, field.elided_if_zero, tags, _put_of(slot))


def _values_of(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda _: ()
    if len(names) == 1:
        only = attrgetter(names[0])
        return lambda noun: (only(noun),)
    return attrgetter(*names)


_PLANS = {
    noun: _TablePlan(
        shape.table.name,
        shape,
        tuple(_step(field) for field in shape.fields),
        _values_of([slot.name for slot in shape.table.slots]),
    )
    for noun, shape in SHAPES.items()
}
