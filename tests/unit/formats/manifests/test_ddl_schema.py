"""The deprecated DDL form of schemas in read steps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidManifest
from odfabric.formats.manifests.ddl_schema import ddl_to_schema
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeBool,
    DataTypeDate,
    DataTypeDecimal,
    DataTypeFloat32,
    DataTypeFloat64,
    DataTypeInt8,
    DataTypeInt16,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
    DataTypeUInt32,
    DataTypeUInt64,
    TimeUnit,
)

TIMESTAMP = DataTypeTimestamp(unit=TimeUnit.MILLISECOND, timezone="UTC")


def field_of(text: str) -> DataField:
    (field,) = ddl_to_schema([text]).fields
    return field


@pytest.mark.parametrize(
    ("text", "data_type"),
    [
        ("BOOL", DataTypeBool()),
        ("boolean", DataTypeBool()),
        ("TINYINT", DataTypeInt8()),
        ("SMALLINT", DataTypeInt16()),
        ("INT", DataTypeInt32()),
        ("integer", DataTypeInt32()),
        ("INT UNSIGNED", DataTypeUInt32()),
        ("BIGINT", DataTypeInt64()),
        ("BIGINT UNSIGNED", DataTypeUInt64()),
        ("FLOAT", DataTypeFloat32()),
        ("REAL", DataTypeFloat32()),
        ("DOUBLE", DataTypeFloat64()),
        ("DOUBLE PRECISION", DataTypeFloat64()),
        ("DECIMAL(10, 2)", DataTypeDecimal(precision=10, scale=2)),
        ("STRING", DataTypeString()),
        ("VARCHAR", DataTypeString()),
        ("VARCHAR(20)", DataTypeString()),
        ("TEXT", DataTypeString()),
        ("DATE", DataTypeDate()),
        ("TIMESTAMP", TIMESTAMP),
        ("ARRAY<INT>", DataTypeList(item_type=DataTypeOption(inner=DataTypeInt32()))),
        (
            "ARRAY<ARRAY<STRING>>",
            DataTypeList(
                item_type=DataTypeOption(inner=DataTypeList(item_type=DataTypeOption(inner=DataTypeString())))
            ),
        ),
    ],
)
def test_types(text: str, data_type: DataType) -> None:
    assert field_of(f"x {text}") == DataField(name="x", type=DataTypeOption(inner=data_type))
    assert field_of(f"x {text} NOT NULL") == DataField(name="x", type=data_type)
    assert field_of(f"x {text} null") == DataField(name="x", type=DataTypeOption(inner=data_type))


def test_columns_in_one_element_or_several() -> None:
    expected = DataSchema(
        fields=(DataField(name="city", type=DataTypeString()), DataField(name="population", type=DataTypeInt64()))
    )
    assert ddl_to_schema(["city STRING NOT NULL, population BIGINT NOT NULL"]) == expected
    assert ddl_to_schema(["city STRING NOT NULL", "population BIGINT NOT NULL"]) == expected
    assert ddl_to_schema([]) == DataSchema(fields=())


def test_quoted_names() -> None:
    assert field_of('"my ""col""" INT').name == 'my "col"'
    assert field_of("`my ``col` INT").name == "my `col"
    assert field_of('"int" INT').name == "int"
    assert field_of("größe INT").name == "größe"


@pytest.mark.parametrize(
    ("elements", "place", "column", "message"),
    [
        (["x"], 0, 2, "found the end where a type"),
        ([""], 0, 1, "found the end where a column name"),
        (["x INT", "y UUID"], 1, 3, "found 'UUID' where a type"),
        (["x CHAR"], 0, 3, "found 'CHAR'"),
        (["x BLOB"], 0, 3, "found 'BLOB'"),
        (["x TIME"], 0, 3, "found 'TIME'"),
        (['x "INT"'], 0, 3, "found 'INT'"),
        (["x INT DEFAULT 1"], 0, 7, "found 'DEFAULT' where ',' or NOT NULL"),
        (["x INT PRIMARY KEY"], 0, 7, "found 'PRIMARY'"),
        (["x INT NOT"], 0, 10, "where 'NULL' is expected"),
        (["x STRING UNSIGNED"], 0, 10, "found 'UNSIGNED'"),
        (["x DECIMAL"], 0, 10, "where '('"),
        (["x DECIMAL(10)"], 0, 13, "where ','"),
        (["x DECIMAL(0, 0)"], 0, 3, "1 <= p <= 76"),
        (["x DECIMAL(77, 0)"], 0, 3, "1 <= p <= 76"),
        (["x DECIMAL(5, 6)"], 0, 3, "s <= p"),
        (["x DECIMAL(99999, 6)"], 0, 11, "found '99999' where a number"),
        (["x ARRAY<INT"], 0, 12, "where '>'"),
        (["x ARRAY INT"], 0, 9, "where '<'"),
        (["1x INT"], 0, 1, "found '1' where a column name"),
        (["x INT,"], 0, 7, "where a column name"),
        (["x;INT"], 0, 2, "unexpected character ';'"),
        (["x 'INT'"], 0, 3, "unexpected character"),
        (["x " + "ARRAY<" * 40 + "INT" + ">" * 40], 0, 99, "nest at most 16"),
    ],
)
def test_what_is_wrong_is_pointed_at(elements: list[str], place: int, column: int, message: str) -> None:
    with pytest.raises(InvalidManifest) as caught:
        ddl_to_schema(elements)
    assert message in caught.value.message
    assert caught.value.place.field == f"ddlSchema[{place}]"
    assert caught.value.place.column == column


def test_a_column_declared_twice() -> None:
    with pytest.raises(InvalidManifest, match="`x` is declared twice"):
        ddl_to_schema(["x INT", "x INT"])


@given(st.lists(st.text(alphabet=st.sampled_from(list('xyINTARAYDECML <>(),1"`')), max_size=30), max_size=3))
def test_any_text_is_a_schema_or_a_user_error(elements: list[str]) -> None:
    try:
        ddl_to_schema(elements)
    except InvalidManifest as error:
        assert error.place.field is not None  # noqa: PT017
