"""Rows as changes: adding up, order, well-formed changelogs, and the check sum."""

from __future__ import annotations

import datetime
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.formats.slices.slice_parquet import open_slice
from odfabric.formats.slices.state_rows import (
    Changes,
    added_up,
    check_sum,
    first_ill_formed,
    in_order,
    read_changes,
    repeated,
    write_state_file,
)
from odfabric.model.vocabulary import DatasetVocabulary

SCHEMA = pa.schema(
    [
        pa.field("key", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("flag", pa.bool_()),
        pa.field("amount", pa.decimal128(10, 2)),
        pa.field("day", pa.date32()),
        pa.field("at", pa.timestamp("ms", "UTC")),
        pa.field("raw", pa.binary()),
        pa.field("small", pa.uint8()),
    ]
)
NAN = float("nan")


def row(key: str | None = "a", number: float | None = 1.0, **other: object) -> dict[str, object]:
    return {"key": key, "number": number, **other}


def table(*rows: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist([dict.fromkeys(SCHEMA.names) | one for one in rows], SCHEMA)


def net(*changes: tuple[dict[str, object], int]) -> list[tuple[object, object, int]]:
    rows, diffs = added_up([(table(one), pa.chunked_array([[diff]])) for one, diff in changes], SCHEMA)
    return sorted(
        (repr(one["key"]), repr(one["number"]), diff)
        for one, diff in zip(rows.to_pylist(), diffs.to_pylist(), strict=True)
    )


def test_equal_rows_add_up_and_nothing_is_left_of_what_cancels() -> None:
    assert net((row(), 1), (row(), 1), (row("b"), 1), (row("b"), -1)) == [("'a'", "1.0", 2)]
    assert net() == []


def test_rows_are_equal_bit_by_bit_and_null_is_like_null() -> None:
    found = net((row(None, None), 1), (row(None, None), -1), (row("z", 0.0), 1), (row("z", -0.0), -1))
    assert found == [("'z'", "-0.0", -1), ("'z'", "0.0", 1)]


def test_a_row_comes_as_often_as_it_is_there_and_never_less_than_not() -> None:
    rows, diffs = table(row("a"), row("b"), row("c")), pa.array([2, -1, 1])
    assert repeated(rows, diffs).column("key").to_pylist() == ["a", "a", "c"]


def test_order_is_by_key_then_by_all_other_columns() -> None:
    rows = table(row("b", 1.0), row("a", NAN), row("a", 0.0), row("a", -0.0), row("a", -1.0), row(None, 5.0))
    found = [(one["key"], repr(one["number"])) for one in in_order(rows, ["key"]).to_pylist()]
    assert found[:3] == [(None, "5.0"), ("a", "nan"), ("a", "-1.0")]
    assert sorted(found[3:5]) == [("a", "-0.0"), ("a", "0.0")]
    assert found[5:] == [("b", "1.0")]
    again = in_order(rows.take(pa.array([3, 5, 1, 0, 2, 4])), ["key"])
    assert [repr(one) for one in again.to_pylist()] == [repr(one) for one in in_order(rows, ["key"]).to_pylist()]


NESTED = pa.schema(
    [
        pa.field("key", pa.int32()),
        pa.field("items", pa.list_(pa.string())),
        pa.field(
            "place", pa.struct([pa.field("lat", pa.float64(), False), pa.field("codes", pa.list_(pa.int8()), False)])
        ),
    ]
)
nested_row = st.fixed_dictionaries(
    {
        "key": st.integers(0, 1),
        "items": st.sampled_from([None, [], [None], ["a"], ["a", ""], ["a", "\0"]]),
        "place": st.sampled_from(
            [None, {"lat": 0.0, "codes": []}, {"lat": -0.0, "codes": [1]}, {"lat": 0.0, "codes": [None]}]
        ),
    }
)


def text_of(one: dict[str, object]) -> str:
    return repr([one[name] for name in NESTED.names])


@given(st.lists(st.lists(st.tuples(nested_row, st.sampled_from([1, 1, -1])), max_size=6), max_size=3))
def test_nested_values_are_told_apart_and_stay_as_they_are(pieces: list[list[tuple[dict[str, object], int]]]) -> None:
    tables = [
        (
            pa.Table.from_pylist([one for one, _ in piece], schema=NESTED),
            pa.chunked_array([[diff for _, diff in piece]], pa.int64()),
        )
        for piece in pieces
    ]
    expected: Counter[str] = Counter()
    for one, diff in (each for piece in pieces for each in piece):
        expected[text_of(one)] += diff
    rows, diffs = added_up(tables, NESTED)
    found = list(zip(map(text_of, rows.to_pylist()), diffs.to_pylist(), strict=True))
    assert len({one for one, _ in found}) == len(found)
    assert dict(found) == {one: diff for one, diff in expected.items() if diff}
    ordered = in_order(rows, ["key"])
    assert ordered.equals(in_order(rows.take(pa.array(np.arange(rows.num_rows)[::-1])), ["key"]))
    assert ordered.column("key").to_pylist() == sorted(rows.column("key").to_pylist())


def changes_of(*given: tuple[dict[str, object], int], start: int = 10) -> Changes:
    rows = table(*(one for one, _ in given))
    diffs = pa.chunked_array([[diff for _, diff in given]], pa.int64())
    return Changes(rows, diffs, pa.chunked_array([range(start, start + len(given))], pa.int64()))


@pytest.mark.parametrize(
    ("given_changes", "wrong"),
    [
        ([(row("a"), -1), (row("a", 2.0), 1), (row("b"), 1), (row("b"), -1)], None),
        ([(row("a", 2.0), -1)], 10),
        ([(row("b"), 1), (row("a"), 1)], 11),
        ([(row("c"), -1)], 10),
        ([(row("a"), -1), (row("a"), -1)], 11),
        ([(row("a"), -1), (row("a", 0.0), 1), (row("a", -0.0), -1)], 12),
        ([(row(None), 1), (row(None), 1)], 11),
        ([(row("b", NAN), 1), (row("b", NAN), -1)], None),
        ([], None),
    ],
)
def test_a_row_comes_where_none_is_and_goes_where_it_is(
    given_changes: list[tuple[dict[str, object], int]], wrong: int | None
) -> None:
    found = first_ill_formed(table(row("a"), row("z")), changes_of(*given_changes), ["key"])
    assert (None if found is None else found.offset) == wrong


def test_zeros_of_both_signs_are_one_key() -> None:
    rows = pa.table({"key": pa.array([0.0, -0.0])})
    changes = Changes(rows, pa.chunked_array([[1, 1]]), pa.chunked_array([[0, 1]]))
    found = first_ill_formed(rows.schema.empty_table(), changes, ["key"])
    assert found is not None
    assert (found.offset, found.key) == (1, "key = -0.0")


values: dict[str, st.SearchStrategy[Any]] = {
    "key": st.text(max_size=5),
    "number": st.floats(),
    "flag": st.booleans(),
    "amount": st.decimals(-100, 100, places=2),
    "day": st.dates(datetime.date(1970, 1, 1), datetime.date(2100, 1, 1)),
    "at": st.integers(0, 2**40),
    "raw": st.binary(max_size=5),
    "small": st.integers(0, 255),
}
rows_of_all_types = st.lists(
    st.fixed_dictionaries({name: st.none() | found for name, found in values.items()}), max_size=8
)


@given(rows_of_all_types, st.data())
def test_the_check_sum_is_that_of_what_is_left(listed: list[dict[str, object]], data: st.DataObject) -> None:
    diffs = data.draw(st.lists(st.integers(-2, 2), min_size=len(listed), max_size=len(listed)))
    rows, each = table(*listed), pa.array(diffs, pa.int64())
    left, counts = added_up([(rows, pa.chunked_array([each]))], SCHEMA)
    assert check_sum(left, counts) == check_sum(rows, each)
    assert check_sum(rows.slice(1), each.slice(1)) == check_sum(table(*listed[1:]), pa.array(diffs[1:], pa.int64()))


@pytest.mark.parametrize(
    "other",
    [
        row("b"),
        row("a", -1.0),
        row(None),
        row("a", None),
        row(flag=False),
        row(amount=Decimal("0.01")),
        row(day=datetime.date(2024, 1, 1)),
        row(raw=b"\0"),
        row(raw=b""),
        row(small=1),
    ],
)
def test_the_check_sum_tells_rows_apart(other: dict[str, object]) -> None:
    assert check_sum(table(row()), pa.array([1])) != check_sum(table(other), pa.array([1]))


def slice_file(folder: Path, **columns: pa.Array) -> Path:
    path = folder / "slice"
    pq.write_table(pa.table(columns), path)
    return path


def test_changes_of_a_slice_have_the_columns_that_were_asked_for(tmp_path: Path) -> None:
    file = slice_file(tmp_path, offset=pa.array([7, 8]), op=pa.array([2, 3]), number=pa.array([1, 2], pa.float32()))
    found = read_changes(file, pa.schema([SCHEMA.field("key"), SCHEMA.field("number")]), DatasetVocabulary())
    assert found.rows.to_pylist() == [{"key": None, "number": 1.0}, {"key": None, "number": 2.0}]
    assert (found.diffs.to_pylist(), found.offsets.to_pylist()) == ([-1, 1], [7, 8])


def test_a_slice_with_other_operations_or_types_is_refused(tmp_path: Path) -> None:
    columns = pa.schema([pa.field("number", pa.int8())])
    file = slice_file(tmp_path, offset=pa.array([7]), op=pa.array([4]), number=pa.array([1]))
    with pytest.raises(InvalidData, match="operation"):
        read_changes(file, columns, DatasetVocabulary())
    file = slice_file(tmp_path, offset=pa.array([7]), op=pa.array([0]), number=pa.array([1000]))
    with pytest.raises(InvalidData, match="schema"):
        read_changes(file, columns, DatasetVocabulary())


def test_a_file_of_states_reads_as_a_slice_of_appends(tmp_path: Path) -> None:
    path = tmp_path / "state"
    assert write_state_file(str(path), [table(row("a")), table(row("b"))], SCHEMA, DatasetVocabulary()) == 2
    with open_slice(path, DatasetVocabulary()) as reader:
        found = [one for batch in reader.batches() for one in batch.to_pylist()]
    assert [(one["offset"], one["op"], one["key"]) for one in found] == [(0, 0, "a"), (1, 0, "b")]
