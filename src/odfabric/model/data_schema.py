"""Schemas of data as the specification has them (DataSchema, RFC-016).

Owns the nouns only: how they look in bytes, YAML or Arrow is decided in `formats`. An absent optional member is equal in
meaning to its documented default but not equal in bytes, so both forms are kept apart."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias


class TimeUnit(Enum):
    """Resolution of times; absent means MILLISECOND."""

    SECOND = 0
    MILLISECOND = 1
    MICROSECOND = 2
    NANOSECOND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtraAttributes:
    """Attributes of extensions: the received compact JSON text of an object.

    Kept verbatim because it is part of hashes.
    """

    entries: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DataSchema:
    """Ordered columns of a dataset."""

    fields: tuple[DataField, ...]
    extra: ExtraAttributes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataField:
    """One named column or struct member."""

    name: str
    type: DataType
    extra: ExtraAttributes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeBinary:
    """Bytes."""

    fixed_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeBool:
    """True or false."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeDate:
    """A day without a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeDecimal:
    """Decimal number with a fixed number of digits."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeDuration:
    """Length of time; this node keeps none."""

    unit: TimeUnit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeFloat16:
    """16-bit floating point number; this node keeps none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeFloat32:
    """32-bit floating point number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeFloat64:
    """64-bit floating point number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeInt8:
    """Signed 8-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeInt16:
    """Signed 16-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeInt32:
    """Signed 32-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeInt64:
    """Signed 64-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeUInt8:
    """Unsigned 8-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeUInt16:
    """Unsigned 16-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeUInt32:
    """Unsigned 32-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeUInt64:
    """Unsigned 64-bit integer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeList:
    """List of values of one type."""

    item_type: DataType
    fixed_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeMap:
    """Map of keys to values; this node keeps none."""

    key_type: DataType
    value_type: DataType
    keys_sorted: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeNull:
    """Always null; this node keeps none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeOption:
    """A value of the inner type, or null."""

    inner: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeStruct:
    """Named members."""

    fields: tuple[DataField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeTime:
    """Time of day; this node keeps none."""

    unit: TimeUnit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeTimestamp:
    """Instant."""

    unit: TimeUnit | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeString:
    """Text."""


DataType: TypeAlias = (
    DataTypeBinary
    | DataTypeBool
    | DataTypeDate
    | DataTypeDecimal
    | DataTypeDuration
    | DataTypeFloat16
    | DataTypeFloat32
    | DataTypeFloat64
    | DataTypeInt8
    | DataTypeInt16
    | DataTypeInt32
    | DataTypeInt64
    | DataTypeUInt8
    | DataTypeUInt16
    | DataTypeUInt32
    | DataTypeUInt64
    | DataTypeList
    | DataTypeMap
    | DataTypeNull
    | DataTypeOption
    | DataTypeStruct
    | DataTypeTime
    | DataTypeTimestamp
    | DataTypeString
)
