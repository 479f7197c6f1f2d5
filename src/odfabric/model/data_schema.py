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
    """Attributes of extensions: the received compact JSON text of an object, kept verbatim because it is part of hashes."""

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
    """Data type `Binary`."""

    fixed_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeBool:
    """Data type `Bool`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeDate:
    """Data type `Date`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeDecimal:
    """Data type `Decimal`."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeDuration:
    """Data type `Duration`."""

    unit: TimeUnit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeFloat16:
    """Data type `Float16`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeFloat32:
    """Data type `Float32`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeFloat64:
    """Data type `Float64`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeInt8:
    """Data type `Int8`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeInt16:
    """Data type `Int16`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeInt32:
    """Data type `Int32`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeInt64:
    """Data type `Int64`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeUInt8:
    """Data type `UInt8`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeUInt16:
    """Data type `UInt16`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeUInt32:
    """Data type `UInt32`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeUInt64:
    """Data type `UInt64`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeList:
    """Data type `List`."""

    item_type: DataType
    fixed_length: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeMap:
    """Data type `Map`."""

    key_type: DataType
    value_type: DataType
    keys_sorted: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeNull:
    """Data type `Null`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeOption:
    """Data type `Option`."""

    inner: DataType


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeStruct:
    """Data type `Struct`."""

    fields: tuple[DataField, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeTime:
    """Data type `Time`."""

    unit: TimeUnit | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeTimestamp:
    """Data type `Timestamp`."""

    unit: TimeUnit | None = None
    timezone: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DataTypeString:
    """Data type `String`."""


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
