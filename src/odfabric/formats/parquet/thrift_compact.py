"""The Thrift compact protocol, as far as Parquet's headers and footers need it.

Owns the decoder from bytes to structs of numbered fields, and the encoder of those that a footer needs. Invariant: decoding is total and
bounded for any bytes: a struct, InvalidData or NeedsMore; work is proportional to the bytes. Doubles and maps are passed over. Not here: what the fields mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

from odfabric.errors import InvalidData

Value: TypeAlias = "int | bytes | list[Value] | Struct | None"
Struct: TypeAlias = "dict[int, Value]"
"""Fields by number: integers, booleans as 0 and 1, bytes, lists and structs; None for what was passed over."""

_DEPTH_MAX = 16
_VARINT_BYTES_MAX = 10

_STOP, _TRUE, _FALSE, _BYTE, _I16, _I32, _I64, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT = range(13)
_INTEGERS = (_I16, _I32, _I64)
_BYTES_OF_DOUBLE = 8
_LONG_LIST = 15


class NeedsMore(Exception):
    """The struct goes on behind the bytes that were given."""


class CompactReader:
    """Reads structs from the beginning of some bytes; `what` names them in errors."""

    def __init__(self, data: bytes, what: str, *, values_max: int) -> None:
        self._data = data
        self._what = what
        self._left = values_max
        self.position = 0

    def struct(self, depth: int = 0) -> Struct:
        """One struct with what is in it."""
        fields: Struct = {}
        number = 0
        while (head := self._byte()) & 0x0F != _STOP:
            number = number + (head >> 4) if head >> 4 else self._zigzag()
            if number in fields:
                raise InvalidData(f"{self._what} has a field twice")
            kind = head & 0x0F
            fields[number] = int(kind == _TRUE) if kind in (_TRUE, _FALSE) else self._value(kind, depth)
        return fields

    def _value(self, kind: int, depth: int) -> Value:
        self._left -= 1
        if self._left < 0 or depth > _DEPTH_MAX:
            raise InvalidData(f"{self._what} holds too much")
        if kind in _INTEGERS:
            return self._zigzag()
        if kind == _BINARY:
            return self._take(self._varint())
        if kind == _STRUCT:
            return self.struct(depth + 1)
        if kind in (_LIST, _SET):
            return self._list(depth)
        if kind in (_TRUE, _FALSE, _BYTE):  # of a list: in a struct the type is the value
            return int(self._byte() == _TRUE)
        if kind == _DOUBLE:
            self._take(_BYTES_OF_DOUBLE)
        elif kind == _MAP:
            count = self._varint()
            kinds = self._byte() if count else 0
            for _ in range(count):
                self._value(kinds >> 4, depth + 1)
                self._value(kinds & 0x0F, depth + 1)
        else:
            raise InvalidData(f"{self._what} has a field of an unknown type, {kind}")
        return None

    def _list(self, depth: int) -> list[Value]:
        head = self._byte()
        count = head >> 4 if head >> 4 != _LONG_LIST else self._varint()
        if count > len(self._data) - self.position:  # each takes a byte at least
            raise NeedsMore
        return [self._value(head & 0x0F, depth + 1) for _ in range(count)]

    def _zigzag(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        # Most numbers have one byte.
        if self.position < len(self._data) and (first := self._data[self.position]) < 0x80:
            self.position += 1
            return first
        value = 0
        for index in range(_VARINT_BYTES_MAX):
            byte = self._byte()
            value |= (byte & 0x7F) << (7 * index)
            if not byte & 0x80:
                return value
        raise InvalidData(f"{self._what} has a number that is too long")

    def _byte(self) -> int:
        if self.position >= len(self._data):
            raise NeedsMore
        self.position += 1
        return self._data[self.position - 1]

    def _take(self, count: int) -> bytes:
        if count > len(self._data) - self.position:
            self.position = len(self._data)
            raise NeedsMore
        self.position += count
        return self._data[self.position - count : self.position]


class Encoded(NamedTuple):
    """A value as bytes, with the number of its type."""

    kind: int
    data: bytes


def i32(value: int) -> Encoded:
    """A whole number of 32 bits."""
    return Encoded(_I32, _zigzag_bytes(value))


def i64(value: int) -> Encoded:
    """A whole number of 64 bits."""
    return Encoded(_I64, _zigzag_bytes(value))


def binary(value: bytes) -> Encoded:
    """Bytes, or a text in UTF-8."""
    return Encoded(_BINARY, _varint_bytes(len(value)) + value)


def list_of(values: Sequence[Encoded]) -> Encoded:
    """A list of at least one value, all of one type."""
    kind, count = values[0].kind, len(values)
    head = bytes([count << 4 | kind]) if count < _LONG_LIST else bytes([0xF0 | kind]) + _varint_bytes(count)
    return Encoded(_LIST, head + b"".join(each.data for each in values))


def struct_of(fields: Iterable[tuple[int, Encoded]]) -> Encoded:
    """A struct; fields ascend by number, each at most 15 after the one before."""
    parts, before = [], 0
    for number, value in fields:
        parts += [bytes([number - before << 4 | value.kind]), value.data]
        before = number
    return Encoded(_STRUCT, b"".join([*parts, bytes([_STOP])]))


def encoded_struct(data: bytes) -> Encoded:
    """A struct that is encoded already."""
    return Encoded(_STRUCT, data)


def _zigzag_bytes(value: int) -> bytes:
    return _varint_bytes(value << 1 if value >= 0 else ~(value << 1))


def _varint_bytes(value: int) -> bytes:
    found = bytearray()
    while value >= 0x80:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
