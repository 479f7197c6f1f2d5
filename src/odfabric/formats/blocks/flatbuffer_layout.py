"""Canonical layout of FlatBuffers, built back to front: where fields are placed.

The fields of a table are built in slot order.

Owns the arithmetic of padding and vtables. Invariant: a layout depends only on the table, on which slots are present, on
the position modulo 8 at which the table is begun, and on the alignment of the Timestamp struct; so it is computed once and
then packs or unpacks a whole table in one step. Not here: values (`formats.blocks.flatbuffer_writer`, `formats.blocks.flatbuffer_reader`).
Source: FlatBuffers internals; order rules of the specification's reference schema.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from operator import itemgetter
from typing import Any

from odfabric.formats.blocks.block_tables import TABLES, Kind, Slot, Table
from odfabric.formats.blocks.engine_contract_tables import ENGINE_TABLES

MOMENT_ALIGNMENT = 4
"""Alignment of the Timestamp struct in bytes. In manifests of version 2 it was 1."""
MOMENT_ALIGNMENT_V2 = 1

LAYOUTS_CACHED_MAX = 4096
"""Layouts kept in memory, about 2 KiB each; the tables of real chains have some hundreds."""

_VTABLE_HEAD_BYTES = 4
_OFFSET = ("I", 4, 4)
_MOMENT_FORMAT = "16s"
_STORAGE = {
    Kind.BOOL: ("B", 1, 1),
    Kind.INT32: ("i", 4, 4),
    Kind.UINT32: ("I", 4, 4),
    Kind.INT64: ("q", 8, 8),
    Kind.UINT64: ("Q", 8, 8),
    Kind.INSTANT: (_MOMENT_FORMAT, 16, MOMENT_ALIGNMENT),
}
_ENUM_STORAGE = {"short": ("h", 2, 2), "int": ("i", 4, 4)}
# Everything written ends at a multiple of 4, vtables at a multiple of 2.
_PHASES = (0, 2, 4, 6)
_SCALARS = frozenset({Kind.BOOL, Kind.INT32, Kind.UINT32, Kind.INT64, Kind.UINT64, Kind.ENUM})


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One vtable entry: a scalar, the tag of a union, or an offset to earlier bytes."""

    format: str
    size: int
    alignment: int
    is_offset: bool


@dataclass(frozen=True, slots=True, eq=False)
class Field:
    """A slot with its one cell, or its two for a union (tag, offset).

    `bits` says which cells of the table these are.
    """

    slot: Slot
    bits: int
    elided_if_zero: bool


@dataclass(frozen=True, slots=True, eq=False)
class TableShape:
    """A table as cells; `required` has the bits of all cells that must be present."""

    table: Table
    cells: tuple[Cell, ...]
    fields: tuple[Field, ...]
    required: int


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """One arrangement of a table.

    `pack` takes the soffset and then the cells in reverse slot order, as they lie in memory; `unpack_from` gives the same.
    `entries` are the vtable's, `distances` how far behind the object's end the offset cells count from (0: not an offset);
    both in slot order of the present cells. `size` and `alignment` are in bytes.
    """

    present: int
    size: int
    alignment: int
    vtable: bytes
    entries: tuple[int, ...]
    distances: tuple[int, ...]
    pack: Callable[..., bytes]
    unpack_from: Callable[[bytes, int], tuple[Any, ...]]


@dataclass(frozen=True, slots=True, eq=False)
class FreeLayout:
    """Another writer's arrangement: what a reader needs of a `Layout`, same meaning."""

    present: int
    size: int
    entries: tuple[int, ...]
    unpack_from: Callable[[bytes, int], tuple[Any, ...]]


def _cells(slot: Slot) -> tuple[Cell, ...]:
    if slot.kind is Kind.UNION:
        return (Cell("B", 1, 1, False), Cell(*_OFFSET, True))
    if slot.enum is not None:
        return (Cell(*_ENUM_STORAGE[slot.enum.fbs_type], False),)
    if slot.kind in _STORAGE:
        return (Cell(*_STORAGE[slot.kind], False),)
    return (Cell(*_OFFSET, True),)


def _shape(table: Table) -> TableShape:
    cells: list[Cell] = []
    fields: list[Field] = []
    required = 0
    for slot in table.slots:
        own = _cells(slot)
        bits = ((1 << len(own)) - 1) << len(cells)
        elided = slot.required and slot.kind in _SCALARS
        fields.append(Field(slot, bits, elided))
        if slot.required and not elided:
            required |= bits
        cells += own
    return TableShape(table, tuple(cells), tuple(fields), required)


SHAPES: dict[type, TableShape] = {noun: _shape(table) for noun, table in (TABLES | ENGINE_TABLES).items()}


@lru_cache(maxsize=LAYOUTS_CACHED_MAX)
def layout(shape: TableShape, present: int, phase: int, moment_alignment: int) -> Layout:
    """The layout of a table whose cells `present` are written.

    Begun `phase` bytes (modulo 8) from the buffer's end.
    """
    used, alignment_max = phase, 4
    ends: list[int] = []
    formats: list[str] = []
    cells = [cell for index, cell in enumerate(shape.cells) if present >> index & 1]
    for cell in cells:
        alignment = moment_alignment if cell.format == _MOMENT_FORMAT else cell.alignment
        padding = -(used + cell.size) % alignment
        used += padding + cell.size
        alignment_max = max(alignment_max, alignment)
        ends.append(used)
        formats.append(f"{cell.format}{padding}x")
    padding = -(used + 4) % 4
    used += padding + 4
    packing = struct.Struct("<" + "".join(reversed([*formats, f"i{padding}x"])))
    entries = tuple(used - end for end in ends)
    return Layout(
        present=present,
        size=used - phase,
        alignment=alignment_max,
        vtable=_vtable(shape, present=present, size=used - phase, entries=entries),
        entries=entries,
        distances=tuple(end - phase if cell.is_offset else 0 for cell, end in zip(cells, ends, strict=True)),
        pack=packing.pack,
        unpack_from=packing.unpack_from,
    )


def _vtable(shape: TableShape, *, present: int, size: int, entries: tuple[int, ...]) -> bytes:
    rest = iter(entries)
    slots = [next(rest) if present >> index & 1 else 0 for index in range(present.bit_length())]
    return struct.pack(f"<{2 + len(slots)}H", _VTABLE_HEAD_BYTES + 2 * len(slots), size, *slots)


def vtable_bytes_max(shape: TableShape) -> int:
    """The longest vtable that a table can have, in bytes."""
    return _VTABLE_HEAD_BYTES + 2 * len(shape.cells)


@lru_cache(maxsize=LAYOUTS_CACHED_MAX)
def layout_of_vtable(shape: TableShape, vtable: bytes) -> Layout | None:
    """The canonical layout that has this vtable, of either manifest version.

    None if there is none.
    """
    count = len(vtable) // 2 - 2
    if count < 0 or len(vtable) % 2 or count > len(shape.cells):
        return None
    present = sum(1 << index for index, entry in enumerate(struct.unpack_from(f"<{count}H", vtable, 4)) if entry)
    for moment_alignment in (MOMENT_ALIGNMENT, MOMENT_ALIGNMENT_V2):
        for phase in _PHASES:
            found = layout(shape, present, phase, moment_alignment)
            if found.vtable == vtable:
                return found
    return None


def free_layout_of_vtable(shape: TableShape, vtable: bytes) -> FreeLayout | None:
    """The arrangement that a vtable describes, canonical or not.

    None if its fields leave the object or overlap.

    The vtable has no more slots than the table has cells.
    """
    if len(vtable) < _VTABLE_HEAD_BYTES or len(vtable) % 2:
        return None
    _, size, *slots = struct.unpack(f"<{len(vtable) // 2}H", vtable)
    placed = sorted((entry, index) for index, entry in enumerate(slots) if entry)
    formats, end = ["<i"], _VTABLE_HEAD_BYTES
    for entry, index in placed:
        if entry < end:
            return None
        formats.append(f"{entry - end}x{shape.cells[index].format}")
        end = entry + shape.cells[index].size
    if end > size:
        return None
    in_memory = [index for _, index in placed]
    by_slot = sorted(in_memory)
    order = [0, *(1 + in_memory.index(index) for index in reversed(by_slot))]
    unpack_from = struct.Struct("".join(formats)).unpack_from
    pick = itemgetter(*order) if len(order) > 1 else tuple
    return FreeLayout(
        present=sum(1 << index for index in by_slot),
        size=size,
        entries=tuple(slots[index] for index in by_slot),
        unpack_from=lambda data, position: pick(unpack_from(data, position)),
    )
