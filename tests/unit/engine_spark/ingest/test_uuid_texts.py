"""UUIDs of Arrow arrays as their texts, wherever they stand."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric_engine_spark.ingest.values.uuid_texts import without_extensions
from tests.support.turns import examples

uuids = st.none() | st.uuids()


def column_of(given: list[UUID | None]) -> pa.Array:
    return pa.array([None if each is None else each.bytes for each in given], pa.uuid())


def texts_of(given: list[UUID | None]) -> list[str | None]:
    return [None if each is None else str(each) for each in given]


@settings(max_examples=examples(200))
@given(given=st.lists(uuids, max_size=8), begin=st.integers(0, 8), count=st.integers(0, 8))
def test_each_is_its_text(given: list[UUID | None], begin: int, count: int) -> None:
    found = without_extensions(column_of(given).slice(min(begin, len(given)), count))
    found.validate(full=True)
    assert found.type == pa.string()
    assert found.to_pylist() == texts_of(given[begin : begin + count])


@given(given=st.lists(st.none() | st.lists(uuids, max_size=3), max_size=6), begin=st.integers(0, 3))
def test_also_within_lists_and_structs(given: list[list[UUID | None] | None], begin: int) -> None:
    lengths = [len(each or []) for each in given]
    offsets = [sum(lengths[:at]) for at in range(len(given) + 1)]
    items = column_of([each for some in given for each in some or []])
    absent = pa.array([each is None for each in given], pa.bool_())
    lists = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), items, mask=absent)
    array = pa.StructArray.from_arrays([lists, pa.array(range(len(given)))], ["u", "n"]).slice(min(begin, len(given)))
    found = without_extensions(array)
    found.validate(full=True)
    wanted: list[Any] = [None if each is None else texts_of(each) for each in given[begin:]]
    assert [each["u"] for each in found.to_pylist()] == wanted


def test_values_of_maps_and_bytes_on_request() -> None:
    ids = [UUID(int=1), UUID(int=2**127)]
    array = pa.MapArray.from_arrays(pa.array([0, 2, 2], pa.int32()), pa.array(["a", "b"]), column_of([*ids]))
    assert without_extensions(array).to_pylist() == [[("a", str(ids[0])), ("b", str(ids[1]))], []]
    assert without_extensions(column_of([*ids]), as_text=False).to_pylist() == [each.bytes for each in ids]


def test_other_arrays_stay_as_they_are() -> None:
    array = pa.array([[1], None])
    assert without_extensions(array) is array
