"""Casts of nested values against the values themselves."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.formats.slices.array_sizes import leaf_slots, leaf_values, row_sizes
from odfabric.formats.slices.arrow_cast import cast_array, map_as_list


def required(name: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, nullable=False)


GIVEN = pa.struct(
    [
        ("n", pa.int32()),
        ("inner", pa.struct([("t", pa.string()), ("l", pa.list_(pa.int16())), ("d", pa.decimal128(5, 2))])),
    ]
)
WANTED = pa.struct(
    [
        required("n", pa.int64()),
        required(
            "inner",
            pa.struct(
                [required("t", pa.string()), required("l", pa.list_(pa.int64())), required("d", pa.decimal128(9, 2))]
            ),
        ),
    ]
)
inner = st.fixed_dictionaries(
    {
        "t": st.text(max_size=2),
        "l": st.lists(st.none() | st.integers(0, 9), max_size=2),
        "d": st.decimals(-9, 9, places=2),
    }
)
values = st.lists(st.none() | st.fixed_dictionaries({"n": st.integers(-9, 9), "inner": inner}), max_size=6)


@given(values=values, begin=st.integers(0, 3), in_lists=st.booleans())
def test_values_stay_and_can_be_written_below_nulls_too(values: list[Any], begin: int, in_lists: bool) -> None:
    have, want = (pa.list_(GIVEN), pa.list_(WANTED)) if in_lists else (GIVEN, WANTED)
    given = [None if value is None else [value, None] for value in values] if in_lists else values
    array = pa.array(given, have).slice(min(begin, len(given)))
    cast = cast_array(array, want)
    assert cast.type == want
    assert cast.to_pylist() == array.to_pylist()
    cast.validate(full=True)
    sink = BytesIO()
    pq.write_table(pa.table([cast], names=["c"]), sink)
    assert pq.read_table(sink).column("c").to_pylist() == array.to_pylist()


def test_a_null_where_a_struct_is_there_stays_one() -> None:
    found = cast_array(pa.array([{"n": None, "inner": None}, None], GIVEN), WANTED)
    assert found.to_pylist() == [{"n": None, "inner": None}, None]


@given(
    micros=st.lists(st.none() | st.integers(-(10**16), 10**16), max_size=5),
    unit=st.sampled_from([("ms", 1_000), ("s", 1_000_000), ("us", 1)]),
)
def test_digits_of_times_are_cut_wherever_they_stand(micros: list[int | None], unit: tuple[str, int]) -> None:
    fine, coarse = pa.timestamp("us", "UTC"), pa.timestamp(unit[0], "UTC")
    cut = [None if each is None else each // unit[1] for each in micros]
    times = pa.array(micros, pa.int64()).cast(fine)
    plain = cast_array(times, coarse, safe=False)
    in_list = cast_array(pa.array([times.to_pylist()], pa.list_(fine)), pa.list_(coarse), safe=False)
    members = pa.StructArray.from_arrays([times], names=["t"])
    in_struct = cast_array(members, pa.struct([("t", coarse)]), safe=False)
    for found in (plain, in_list.flatten(), in_struct.field(0)):
        assert found.cast(pa.int64()).to_pylist() == cut


def test_what_does_not_fit_is_refused_unless_it_may_be_cut() -> None:
    times = pa.array([{"t": 1_500}], pa.struct([("t", pa.timestamp("us"))]))
    millis = pa.struct([("t", pa.timestamp("ms"))])
    with pytest.raises(pa.ArrowInvalid):
        cast_array(times, millis)
    assert cast_array(times, millis, safe=False).field(0).cast(pa.int64()).to_pylist() == [1]


maps = st.lists(st.none() | st.dictionaries(st.text(max_size=2), st.none() | inner, max_size=3), max_size=5)


@given(values=maps, begin=st.integers(0, 3))
def test_entries_of_maps_stay(values: list[Any], begin: int) -> None:
    array = pa.array(
        [None if value is None else list(value.items()) for value in values],
        pa.map_(pa.string(), GIVEN.field("inner").type),
    ).slice(min(begin, len(values)))
    loose = pa.struct([("t", pa.string()), ("l", pa.list_(pa.int64())), ("d", pa.decimal128(9, 2))])
    cast = cast_array(array, pa.map_(pa.string(), loose))
    assert cast.type.item_type == loose
    assert cast.to_pylist() == array.to_pylist()
    cast.validate(full=True)


@given(values=maps, begin=st.integers(0, 3))
def test_entries_of_maps_are_lists_of_structs(values: list[Any], begin: int) -> None:
    kept = [None if value is None else list(value.items()) for value in values][min(begin, len(values)) :]
    array = pa.array(
        [None if value is None else list(value.items()) for value in values],
        pa.map_(pa.string(), GIVEN.field("inner").type),
    ).slice(min(begin, len(values)))
    listed = [
        None if each is None else [(entry["key"], entry["value"]) for entry in each]
        for each in map_as_list(array).to_pylist()
    ]
    assert listed == kept
    slots, present = [int(each.sum()) for each in leaf_slots(array)], leaf_values(array)
    entries = [entry for each in kept if each is not None for entry in each]
    assert (slots[0], present[0]) == (sum(max(1, len(each or [])) for each in kept), len(entries))
    assert len(row_sizes(array)) == len(kept)
