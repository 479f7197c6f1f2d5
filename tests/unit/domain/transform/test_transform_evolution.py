"""Which changes of a transform a dataset admits."""

from __future__ import annotations

import pytest

from odfabric.domain.transform.transform_evolution import check_inputs_stay, schema_of_output
from odfabric.errors import IncompatibleSchema, InvalidRequest
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataType,
    DataTypeInt32,
    DataTypeInt64,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeStruct,
)
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import SetTransform, SqlQueryStep, TransformInput, TransformSql
from odfabric.model.vocabulary import DatasetVocabulary

INT, LONG, TEXT = DataTypeInt32(), DataTypeInt64(), DataTypeString()


def schema(**columns: DataType) -> DataSchema:
    return DataSchema(fields=tuple(DataField(name=name, type=data_type) for name, data_type in columns.items()))


def optional(data_type: DataType) -> DataType:
    return DataTypeOption(inner=data_type)


CURRENT = schema(a=INT, b=optional(TEXT))


def test_the_same_columns_leave_the_schema_as_it_is() -> None:
    assert schema_of_output(CURRENT, schema(b=optional(TEXT), a=INT), DatasetVocabulary()) is CURRENT
    assert schema_of_output(CURRENT, schema(a=INT, b=TEXT), DatasetVocabulary()) is CURRENT


def test_new_optional_columns_come_last() -> None:
    found = schema_of_output(CURRENT, schema(a=INT, b=TEXT, c=optional(LONG)), DatasetVocabulary())
    assert found == schema(a=INT, b=optional(TEXT), c=optional(LONG))


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (schema(a=INT), "'b' was removed"),
        (schema(a=LONG, b=optional(TEXT)), "'a' changed its type"),
        (schema(a=optional(INT), b=optional(TEXT)), "'a' became optional"),
        (schema(a=INT, b=optional(TEXT), c=LONG), "'c' was added and is not optional"),
    ],
)
def test_what_earlier_rows_could_not_promise_is_refused(output: DataSchema, said: str) -> None:
    with pytest.raises(IncompatibleSchema, match=said) as refused:
        schema_of_output(CURRENT, output, DatasetVocabulary())
    assert "new dataset" in (refused.value.hint or "")


def test_a_new_column_in_between_is_told_the_order_without_system_columns() -> None:
    with pytest.raises(IncompatibleSchema, match="another order") as refused:
        schema_of_output(CURRENT, schema(c=optional(LONG), a=INT, b=TEXT), DatasetVocabulary(offset="a"))
    assert (refused.value.hint or "").endswith("last: `b`, `c`")


def reading(*numbers: int) -> SetTransform:
    inputs = tuple(TransformInput(dataset_ref=str(DatasetId(bytes([n]) * 32)), alias=f"i{n}") for n in numbers)
    return SetTransform(inputs=inputs, transform=TransformSql(engine="spark", queries=(SqlQueryStep(query="x"),)))


def test_inputs_and_their_order_stay() -> None:
    check_inputs_stay(reading(1, 2), reading(1, 2))
    for other in (reading(1), reading(2, 1), reading(1, 2, 3), reading(1, 3)):
        with pytest.raises(InvalidRequest, match="inputs"):
            check_inputs_stay(reading(1, 2), other)


def test_members_of_a_struct_are_neither_added_nor_moved() -> None:
    def struct(*names: str) -> DataSchema:
        members = tuple(DataField(name=name, type=optional(TEXT)) for name in names)
        return schema(a=INT, s=DataTypeStruct(fields=members), l=DataTypeList(item_type=DataTypeStruct(fields=members)))

    for other, said in [(("x", "y", "z"), "'s.z' was added"), (("y", "x"), "has its members in another order")]:
        with pytest.raises(IncompatibleSchema, match=said):
            schema_of_output(struct("x", "y"), struct(*other), DatasetVocabulary())
    assert schema_of_output(struct("x"), struct("x"), DatasetVocabulary()) == struct("x")
