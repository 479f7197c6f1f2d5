"""FlatBuffers to nouns of the model, for bytes that nobody has vouched for.

Owns bounds: every offset, vtable, vector and string lies inside the buffer, nothing is read twice (a budget of the buffer's
own length), nesting is limited. Invariant: any bytes give a value or `Damaged`, in time and memory proportional to their
length. Of blocks only canonical tables are read; messages may come from writers that place fields in another order. Not here:
padding, order, and which vtables are shared, which `formats.blocks.block` checks by writing the value again.
Source: FlatBuffers internals; the specification's reference schema.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import Enum
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

from odfabric.errors import InvalidName
from odfabric.formats.blocks.block_tables import METADATA_EVENT, Kind, Slot
from odfabric.formats.blocks.flatbuffer_layout import (
    LAYOUTS_CACHED_MAX,
    SHAPES,
    Field,
    FreeLayout,
    Layout,
    TableShape,
    free_layout_of_vtable,
    layout_of_vtable,
    vtable_bytes_max,
)
from odfabric.formats.identifiers.did import dataset_id_from_bytes
from odfabric.formats.identifiers.multihash import multihash_from_bytes
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.formats.json_values.canonical_json import parse_json_object
from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, SECONDS_PER_DAY, Instant
from odfabric.model.metadata import MetadataBlock
from odfabric.model.multihash import DIGEST_BYTES_MAX, SHA3_256, Multihash

DAYS_CACHED_MAX = 4096

_INT32 = struct.Struct("<i").unpack_from
_UINT16 = struct.Struct("<H").unpack_from
_UINT32 = struct.Struct("<I").unpack_from
_MOMENT = struct.Struct("<iHHII").unpack
_SHA3_256_HEAD = Multihash(SHA3_256, bytes(DIGEST_BYTES_MAX)).to_bytes()[:-DIGEST_BYTES_MAX]
_SHA3_256_BYTES = len(_SHA3_256_HEAD) + DIGEST_BYTES_MAX
_VTABLE_BYTES_MIN = 4
_NEWER = "the block is damaged or was written by a newer version"


class Damaged(ValueError):
    """Bytes are not a FlatBuffer of our tables.

    `where` is the innermost table and field.
    """

    def __init__(self, message: str, *, where: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.where = where

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class FlatBufferReader:
    """One FlatBuffer being read. Positions are offsets from its start, in bytes."""

    __slots__ = ("_any_layout", "_budget", "_data", "_depth_left")

    def __init__(self, data: bytes, *, depth_max: int, any_layout: bool = False) -> None:
        self._any_layout = any_layout
        self._data = data
        self._depth_left = depth_max
        self._budget = len(data)

    def root(self, noun: type) -> Any:
        """The root table as that noun of the model. Raises Damaged."""
        return self._root(_PLANS[noun])

    def root_header(self) -> dict[str, Any]:
        """The root fields of a MetadataBlock, with the event's name. Raises Damaged."""
        fields: dict[str, Any] = self._root(_HEADER_PLAN)
        return fields

    def _root(self, plan: _TablePlan) -> Any:
        try:
            return self._table(plan, _UINT32(self._data, 0)[0])
        except struct.error:
            raise Damaged("the block ends too early", where=plan.name) from None

    def _table(self, plan: _TablePlan, position: int) -> Any:
        if self._depth_left == 0:
            raise Damaged("nested too deeply", where=plan.name)
        self._depth_left -= 1
        arrangement = self._arrangement(plan, position)
        self._spend(arrangement.size)
        cells = arrangement.unpack_from(self._data, position)
        values = plan.absent.copy()
        name = ""
        try:
            for name, place, take, index, entry in arrangement.takes:
                cell = cells[index]
                if place is _OFFSET:
                    values[name] = take(self, position + entry + cell)
                elif place is _INLINE:
                    values[name] = cell
                elif place is _UNION:
                    values[name] = take(self, position + entry + cell, cells[index + 1])
                else:
                    values[name] = take(cell)
        except Damaged as damage:
            damage.where = damage.where or f"{plan.name}.{name}"
            raise
        except struct.error:
            raise Damaged("points outside of the block", where=f"{plan.name}.{name}") from None
        self._depth_left += 1
        return plan.make(**values)

    def _arrangement(self, plan: _TablePlan, position: int) -> _Arrangement:
        data = self._data
        vtable_position = position - _INT32(data, position)[0]
        if vtable_position < 0:
            raise Damaged("the vtable lies outside of the block", where=plan.name)
        size = _UINT16(data, vtable_position)[0]
        if size < _VTABLE_BYTES_MIN or size > plan.vtable_bytes_max:
            raise Damaged(self._vtable_problem(plan, vtable_position, size), where=plan.name)
        found = _arrangement(plan, data[vtable_position : vtable_position + size], any_layout=self._any_layout)
        if found is None:
            what = "is no arrangement of its fields" if self._any_layout else "is not the canonical one"
            raise Damaged(f"the vtable {what}", where=plan.name)
        return found

    def _vtable_problem(self, plan: _TablePlan, position: int, size: int) -> str:
        unknown = self._data[position + plan.vtable_bytes_max : position + size]
        for index in range(0, len(unknown) - 1, 2):
            if unknown[index] or unknown[index + 1]:
                slot = (plan.vtable_bytes_max - _VTABLE_BYTES_MIN + index) // 2
                return f"slot {slot} is unknown here; {_NEWER}"
        return f"the vtable has an impossible length of {size} bytes"

    def _spend(self, size: int) -> None:
        self._budget -= size
        if self._budget < 0:
            raise Damaged("parts of the block overlap")

    def take_bytes(self, position: int) -> bytes:
        """A vector of bytes."""
        size = _UINT32(self._data, position)[0]
        found = self._data[position + 4 : position + 4 + size]
        if len(found) != size:
            raise Damaged(f"{size} bytes are declared, the block ends after {len(found)}")
        self._spend(size + 4)
        return found

    def take_text(self, position: int) -> str:
        """A string."""
        try:
            return self.take_bytes(position).decode()
        except UnicodeDecodeError as error:
            raise Damaged(f"text is not UTF-8: {error.reason}") from None

    def take_table(self, plan: _TablePlan, position: int) -> Any:
        """A table as its noun."""
        return self._table(plan, position)

    def take_targets(self, position: int) -> list[int]:
        """The positions that a vector of offsets points to."""
        count = _UINT32(self._data, position)[0]
        self._spend(4 * count + 4)
        offsets = struct.unpack_from(f"<{count}I", self._data, position + 4)
        return [position + 4 + 4 * index + offset for index, offset in enumerate(offsets)]


_Take: TypeAlias = Callable[..., Any]
_INLINE, _VALUE, _OFFSET, _UNION = "inline", "value", "offset", "union"


class _TakeField(NamedTuple):
    """How one field that is present is read from the cells of its table."""

    name: str
    place: str
    take: _Take
    cell: int
    entry: int


@dataclass(frozen=True, slots=True, eq=False)
class _Arrangement:
    """How a table with a certain vtable is read."""

    size: int
    unpack_from: Callable[[bytes, int], tuple[Any, ...]]
    takes: tuple[_TakeField, ...]


@dataclass(frozen=True, slots=True, eq=False)
class _TablePlan:
    """How a noun is read: what its absent fields are, and how present ones are taken."""

    name: str
    shape: TableShape
    vtable_bytes_max: int
    absent: dict[str, Any]
    takes: tuple[tuple[str, _Take], ...]
    make: Callable[..., Any]


@lru_cache(maxsize=LAYOUTS_CACHED_MAX)
def _arrangement(plan: _TablePlan, vtable: bytes, *, any_layout: bool) -> _Arrangement | None:
    found = (free_layout_of_vtable if any_layout else layout_of_vtable)(plan.shape, vtable)
    if found is None:
        return None
    missing = plan.shape.required & ~found.present
    for field in plan.shape.fields:
        if missing & field.bits:
            raise Damaged("a required field is missing", where=f"{plan.name}.{field.slot.name}")
        if 0 < found.present & field.bits < field.bits:
            raise Damaged("a union has its tag or its value, not both", where=f"{plan.name}.{field.slot.name}")
    return _Arrangement(found.size, found.unpack_from, tuple(_take_fields(plan, found)))


def _take_fields(plan: _TablePlan, found: Layout | FreeLayout) -> Iterator[_TakeField]:
    for field, (place, take) in zip(plan.shape.fields, plan.takes, strict=True):
        if not found.present & field.bits:
            continue
        # The last bit of the field is its offset, before which a union has its tag.
        cell = (found.present & ((1 << (field.bits.bit_length() - 1)) - 1)).bit_count()
        yield _TakeField(field.slot.name, place, take, len(found.entries) - cell, found.entries[cell])


def _enum(slot: Slot) -> _Take:
    assert slot.enum is not None
    members = {member.value: member for member in slot.enum.type}
    name = slot.enum.type.__name__

    def take(number: int) -> Enum:
        try:
            return members[number]
        except KeyError:
            raise Damaged(f"{name} has no value {number}; {_NEWER}") from None

    return take


def _bool(number: int) -> bool:
    return number != 0


@lru_cache(maxsize=DAYS_CACHED_MAX)
def _day_start_ns(year: int, ordinal: int) -> int:
    return Instant.from_year_day(year=year, ordinal=ordinal, second=0, nanos=0).epoch_ns


def _instant(data: bytes) -> Instant:
    year, ordinal, padding, second, nanos = _MOMENT(data)
    try:
        if padding or second >= SECONDS_PER_DAY or nanos >= NANOS_PER_SECOND:
            raise ValueError
        return Instant(_day_start_ns(year, ordinal) + second * NANOS_PER_SECOND + nanos)
    except ValueError:
        raise Damaged(f"not a timestamp: year {year}, day {ordinal}, second {second}, {nanos} ns") from None


def _hash(reader: FlatBufferReader, position: int) -> Multihash:
    data = reader.take_bytes(position)
    if len(data) == _SHA3_256_BYTES and data.startswith(_SHA3_256_HEAD):
        return Multihash(SHA3_256, data[len(_SHA3_256_HEAD) :])
    try:
        return multihash_from_bytes(data)
    except InvalidName as error:
        raise Damaged(f"not a multihash: {error.hint}") from None


def _dataset_id(reader: FlatBufferReader, position: int) -> DatasetId:
    try:
        return dataset_id_from_bytes(reader.take_bytes(position))
    except InvalidName as error:
        raise Damaged(f"not a dataset identity: {error.hint}") from None


def _dataset_ref(reader: FlatBufferReader, position: int) -> str:
    text = reader.take_text(position)
    try:
        reference = parse_dataset_ref(text)
    except InvalidName as error:
        raise Damaged(error.message) from None
    if str(reference) != text:
        raise Damaged(f"{text} is not the canonical spelling of {reference}")
    return text


def _json_object(reader: FlatBufferReader, position: int) -> str:
    text = reader.take_text(position)
    try:
        parse_json_object(text)
    except ValueError as error:
        raise Damaged(f"not a JSON object: {error}") from None
    return text


def _texts(reader: FlatBufferReader, position: int) -> tuple[str, ...]:
    return tuple([reader.take_text(target) for target in reader.take_targets(position)])


def _table(slot: Slot) -> _Take:
    assert slot.table is not None
    noun = slot.table
    return lambda reader, position: reader.take_table(_PLANS[noun], position)


def _tables(slot: Slot) -> _Take:
    assert slot.table is not None
    noun = slot.table
    return lambda reader, position: tuple(
        [reader.take_table(_PLANS[noun], target) for target in reader.take_targets(position)]
    )


def _wrapped(slot: Slot) -> _Take:
    tables = _tables(slot)
    return lambda reader, position: tuple([wrapper.value for wrapper in tables(reader, position)])


def _union(slot: Slot) -> _Take:
    assert slot.union is not None
    union = slot.union

    def take(reader: FlatBufferReader, position: int, tag: int) -> Any:
        if not 1 <= tag <= len(union.members):
            raise Damaged(f"{union.name} has no member {tag}; {_NEWER}")
        return reader.take_table(_PLANS[union.members[tag - 1]], position)

    return take


def _event_name(_reader: FlatBufferReader, _position: int, tag: int) -> str:
    if not 1 <= tag <= len(METADATA_EVENT.tags):
        raise Damaged(f"{METADATA_EVENT.name} has no member {tag}; {_NEWER}")
    return METADATA_EVENT.tags[tag - 1]


_INLINES = frozenset({Kind.INT32, Kind.UINT32, Kind.INT64, Kind.UINT64})
_VALUES: dict[Kind, _Take] = {Kind.BOOL: _bool, Kind.INSTANT: _instant}
_OFFSETS: dict[Kind, _Take] = {
    Kind.TEXT: FlatBufferReader.take_text,
    Kind.DATASET_REF: _dataset_ref,
    Kind.JSON_OBJECT: _json_object,
    Kind.BYTES: FlatBufferReader.take_bytes,
    Kind.HASH: _hash,
    Kind.DATASET_ID: _dataset_id,
    Kind.TEXTS: _texts,
}
_OFFSETS_OF_SLOT: dict[Kind, Callable[[Slot], _Take]] = {
    Kind.TABLE: _table,
    Kind.TABLES: _tables,
    Kind.UNIONS: _wrapped,
}


def _take_of(slot: Slot) -> tuple[str, _Take]:
    if slot.kind in _INLINES:
        return _INLINE, int
    if slot.kind is Kind.ENUM:
        return _VALUE, _enum(slot)
    if slot.kind is Kind.UNION:
        return _UNION, _union(slot)
    if slot.kind in _VALUES:
        return _VALUE, _VALUES[slot.kind]
    if slot.kind in _OFFSETS:
        return _OFFSET, _OFFSETS[slot.kind]
    return _OFFSET, _OFFSETS_OF_SLOT[slot.kind](slot)


def _absent(field: Field) -> Any:
    if not field.elided_if_zero:
        return None
    return next(iter(field.slot.enum.type)) if field.slot.enum is not None else 0


def _plan(shape: TableShape) -> _TablePlan:
    return _TablePlan(
        name=shape.table.name,
        shape=shape,
        vtable_bytes_max=vtable_bytes_max(shape),
        absent={field.slot.name: _absent(field) for field in shape.fields},
        takes=tuple(_take_of(field.slot) for field in shape.fields),
        make=shape.table.type,
    )


_PLANS = {noun: _plan(shape) for noun, shape in SHAPES.items()}
_HEADER_PLAN = replace(
    _PLANS[MetadataBlock],
    takes=tuple(
        (_UNION, _event_name) if field.slot.kind is Kind.UNION else _take_of(field.slot)
        for field in SHAPES[MetadataBlock].fields
    ),
    make=dict,
)
