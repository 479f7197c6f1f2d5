"""Names of types: those that SQL has, and what is nested."""

from __future__ import annotations

import pytest

from odfabric.formats.manifests.ddl_schema import ddl_to_schema
from odfabric.formats.slices.type_names import type_name
from odfabric.model.data_schema import (
    DataField,
    DataTypeInt32,
    DataTypeMap,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
    DataTypeTimestamp,
    DataTypeUInt8,
)


@pytest.mark.parametrize(
    ("ddl", "expected"),
    [
        ("a BIGINT", "BIGINT"),
        ("a DECIMAL(10, 2)", "DECIMAL(10, 2)"),
        ("a ARRAY<STRING>", "ARRAY<STRING>"),
        ("a BOOLEAN", "BOOLEAN"),
    ],
)
def test_what_was_declared_is_shown(ddl: str, expected: str) -> None:
    (field,) = ddl_to_schema([ddl]).fields
    assert type_name(field.type) == expected


def test_whether_a_value_may_be_missing_is_not_part_of_the_name() -> None:
    assert type_name(DataTypeOption(inner=DataTypeInt32())) == "INT"


def test_times_with_a_zone_differ_from_those_without() -> None:
    assert type_name(DataTypeTimestamp(timezone="UTC")) == "TIMESTAMP"
    assert type_name(DataTypeTimestamp()) == "TIMESTAMP_NTZ"


def test_nested_types_name_what_is_in_them() -> None:
    member = DataField(name="b", type=DataTypeOption(inner=DataTypeInt32()))
    nested = DataTypeMap(key_type=DataTypeString(), value_type=DataTypeStruct(fields=(member,)))
    assert type_name(nested) == "MAP<STRING, STRUCT<b: INT>>"


def test_types_that_spark_has_not_have_names_too() -> None:
    assert type_name(DataTypeUInt8()) == "UNSIGNED TINYINT"
