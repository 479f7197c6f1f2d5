"""Rows of slices: faults are found, from any writer, in any row groups."""

from __future__ import annotations

import io
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import IncompatibleSchema, InvalidData
from odfabric.formats.parquet.parquet_reading import BATCH_ROWS
from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.formats.slices.logical_hash import logical_hash_of_parquet
from odfabric.formats.slices.slice_check import SliceRules, check_slice_rows, examine_slice
from odfabric.formats.slices.slice_schema import new_slice_schema
from odfabric.model.instant import Instant
from odfabric.model.metadata import OffsetInterval
from odfabric.model.vocabulary import DatasetVocabulary
from tests.support.chains.arrow_strategies import arrays, parquet_can_hold, tables

VOCABULARY = DatasetVocabulary()
SYSTEM_TIME = datetime(2026, 1, 31, 12, tzinfo=UTC)
INSTANT = Instant.from_datetime(SYSTEM_TIME)
TIMES = pa.timestamp("ms", "UTC")
SCHEMA = new_slice_schema(
    [pa.field("city", pa.string()), pa.field("population", pa.int64(), False)], vocabulary=VOCABULARY
)
DATA_SCHEMA = arrow_to_data_schema(SCHEMA)


def slice_table(first: int = 0, rows: int = 5, **changed: Any) -> pa.Table:
    """A valid slice; columns may be replaced by name."""
    columns: dict[str, Any] = {
        "offset": list(range(first, first + rows)),
        "op": [0] * rows,
        "system_time": [SYSTEM_TIME] * rows,
        "event_time": [datetime(2026, 1, 1 + index % 28, tzinfo=UTC) for index in range(rows)],
        "city": [None if index % 3 == 0 else f"city-{index}" for index in range(rows)],
        "population": [index * 1000 for index in range(rows)],
    }
    return pa.table({**columns, **changed}, schema=SCHEMA if not changed else None)


def rules(first: int = 0, rows: int = 5, **members: Any) -> SliceRules:
    """Rules of a block with this interval and a schema."""
    interval = OffsetInterval(start=first, end=first + rows - 1)
    known: dict[str, Any] = {"interval": interval, "data_schema": DATA_SCHEMA, "system_time": INSTANT}
    return SliceRules(vocabulary=VOCABULARY, **{**known, **members})


def in_memory(table: pa.Table) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file


def check(table: pa.Table, given: SliceRules | None = None) -> list[str]:
    return check_slice_rows(in_memory(table), given or rules())


def test_a_good_slice_has_no_problems() -> None:
    table = slice_table(first=7, rows=20_000)
    assert check(table, rules(7, 20_000)) == []
    assert check(table, rules(7, 20_000, data_schema=None, system_time=None)) == []
    strict = rules(7, 20_000, event_time_required=True, whole_corrections=True)
    assert check(table, strict) == []


def test_the_logical_hash_comes_from_the_same_reading() -> None:
    file = in_memory(slice_table(rows=BATCH_ROWS + 1))
    examined = examine_slice(file, rules(rows=BATCH_ROWS + 1))
    assert (examined.digest, examined.problems) == (logical_hash_of_parquet(file), ())
    assert examine_slice(file, rules(rows=9)).problems == (
        f"the slice has {BATCH_ROWS + 1} rows, its interval [0, 8] means 9",
    )


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"offset": [0, 1, 3, 2, 4]}, "row 3 has the offset 3, 2 is expected"),
        ({"offset": [0, 1, 1, 2, 3]}, "row 3 has the offset 1, 2 is expected"),
        ({"offset": [1, 2, 3, 4, 5]}, "row 1 has the offset 1, 0 is expected"),
        ({"offset": pa.array([0, 1, None, 3, 4])}, "column `offset` has nulls"),
        ({"op": pa.array([0, 1, 2, 3, 4], pa.int32())}, "row 5 has 4 as operation type, 0 to 3 are known"),
        ({"op": pa.array([0, -1, 2, 3, 4], pa.int32())}, "row 2 has -1 as operation type, 0 to 3 are known"),
        ({"op": pa.array([0, None, 2, 3, 0], pa.int32())}, "column `op` has nulls"),
        ({"system_time": pa.array([SYSTEM_TIME] * 4 + [None], TIMES)}, "column `system_time` has nulls"),
        ({"system_time": [1] * 5}, "column `system_time` is int64, the dataset's schema says timestamp"),
        (
            {"system_time": pa.array([SYSTEM_TIME] * 4 + [datetime(2026, 1, 1, tzinfo=UTC)], TIMES)},
            "row 5 has the system_time 2026-01-01T00:00:00Z, 2026-01-31T12:00:00Z is expected",
        ),
        (
            {"event_time": pa.array([SYSTEM_TIME] * 4 + [None], TIMES)},
            "Column `event_time` contains 1 null values while none were expected",
        ),
        ({"population": pa.array([1, None, 3, 4, None])}, "Column `population` contains 2 null values"),
        ({"population": ["1"] * 5}, "column `population` is string, the dataset's schema says int64"),
        ({"extra": [1] * 5}, "column `extra` is not in the dataset's schema"),
    ],
)
def test_what_is_wrong_is_found(changed: dict[str, Any], problem: str) -> None:
    found = check(slice_table(**changed))
    assert any(text.startswith(problem) for text in found), found


@pytest.mark.parametrize("name", ["city", "population", "system_time", "event_time"])
def test_a_column_of_the_schema_is_never_missing(name: str) -> None:
    assert check(slice_table().drop_columns([name])) == [f"the slice has no column `{name}`"]


@pytest.mark.parametrize("name", ["system_time", "event_time"])
def test_a_system_column_is_never_missing(name: str) -> None:
    found = check(slice_table().drop_columns([name]), rules(data_schema=None))
    assert found == [f"the slice has no column `{name}`"]


class TestSystemTimes:
    def test_another_type(self) -> None:
        found = check(slice_table(system_time=[1] * 5), rules(data_schema=None, system_time=None))
        assert found == ["column `system_time` is int64, not a timestamp"]

    def test_the_block_names_it(self) -> None:
        later = Instant(INSTANT.epoch_ns + 1_999_999)
        (problem,) = check(slice_table(), rules(system_time=later))
        assert problem == "row 1 has the system_time 2026-01-31T12:00:00Z, 2026-01-31T12:00:00.001Z is expected"
        assert check(slice_table(), rules(system_time=Instant(INSTANT.epoch_ns + 999_999))) == []

    def mixed(self, *seconds: int) -> pa.Table:
        moments = [SYSTEM_TIME - timedelta(seconds=before) for before in seconds]
        return slice_table(rows=len(seconds)).set_column(2, "system_time", pa.array(moments, TIMES))

    def test_rows_of_a_compacted_chain_are_older_than_their_block(self) -> None:
        older = rules(older_rows=True)
        assert check(self.mixed(9, 9, 5, 0, 0), older) == []
        (back,) = check(self.mixed(9, 5, 6, 0, 0), older)
        assert back == "row 3 has the system_time 2026-01-31T11:59:54Z, which goes back"
        (ahead,) = check(self.mixed(9, 0, 0, 0, -1), older)
        assert ahead.startswith("row 5 has the system_time 2026-01-31T12:00:01Z, which is after that of its block")

    def test_it_does_not_go_back_between_batches_either(self) -> None:
        found = check(
            self.mixed(*[5] * BATCH_ROWS, 6), rules(rows=BATCH_ROWS + 1, older_rows=True, data_schema=DATA_SCHEMA)
        )
        assert found == [f"row {BATCH_ROWS + 1} has the system_time 2026-01-31T11:59:54Z, which goes back"]


class TestEventTimes:
    def with_times(self, times: pa.Array, **members: Any) -> list[str]:
        table = slice_table(rows=len(times)).set_column(3, "event_time", times)
        return check(table, rules(rows=len(times), data_schema=None, **members))

    def test_they_are_timestamps_or_dates(self) -> None:
        assert self.with_times(pa.array([SYSTEM_TIME], TIMES)) == []
        assert self.with_times(pa.array([date(2026, 1, 1)])) == []
        assert self.with_times(pa.array([7])) == ["column `event_time` is int64, neither a timestamp nor a date"]

    def test_a_root_dataset_has_them_in_every_row(self) -> None:
        times = pa.array([SYSTEM_TIME, None], TIMES)
        assert self.with_times(times) == []
        assert self.with_times(times, event_time_required=True) == ["row 2 has no event_time"]

    @pytest.mark.parametrize(
        ("number", "unit", "fits"),
        [
            (-62_135_596_800_000, "ms", True),
            (-62_135_596_800_001, "ms", False),
            (253_402_300_799_999, "ms", True),
            (253_402_300_800_000, "ms", False),
            (2**63 - 1, "ms", False),
            (-(2**63), "ms", False),
            (2**63 - 1, "us", False),
            (2**63 - 1, "ns", True),
        ],
    )
    def test_they_are_of_years_that_calendars_know(self, number: int, unit: str, *, fits: bool) -> None:
        found = self.with_times(pa.array([0, number], pa.int64()).cast(pa.timestamp(unit, "UTC")))
        assert (found == []) is fits
        assert fits or found[0].startswith("row 2 has the event_time ")

    @pytest.mark.parametrize(("days", "fits"), [(-719_162, True), (-719_163, False), (2**31 - 1, False)])
    def test_so_are_dates(self, days: int, *, fits: bool) -> None:
        found = self.with_times(pa.array([0, days], pa.int32()).cast(pa.date32()))
        assert (found == []) is fits


class TestCorrections:
    def check(self, *operations: int, **members: Any) -> list[str]:
        rows = len(operations)
        table = slice_table(rows=rows).set_column(1, "op", pa.array(operations, pa.int32()))
        return check(table, rules(rows=rows, **{"whole_corrections": True, **members}))

    @pytest.mark.parametrize("operations", [(2, 3), (0, 2, 3, 1), (2, 3, 2, 3), (0, 1, 0)])
    def test_whole_ones_pass(self, operations: tuple[int, ...]) -> None:
        assert self.check(*operations) == []

    @pytest.mark.parametrize(
        ("operations", "row", "text"),
        [
            ((2,), 1, "correct-from (2) that no correct-to"),
            ((3,), 1, "correct-to (3) that does not directly follow"),
            ((0, 2), 2, "correct-from (2) that no correct-to"),
            ((2, 0, 3), 1, "correct-from (2) that no correct-to"),
            ((2, 2, 3, 3), 1, "correct-from (2) that no correct-to"),
            ((2, 3, 3), 3, "correct-to (3) that does not directly follow"),
            ((3, 2), 1, "correct-to (3) that does not directly follow"),
        ],
    )
    def test_halves_are_named(self, operations: tuple[int, ...], row: int, text: str) -> None:
        (found,) = self.check(*operations)
        assert found.startswith(f"row {row} is a {text}")
        assert self.check(*operations, whole_corrections=False) == []

    def test_a_pair_may_lie_in_two_batches(self) -> None:
        before = [0] * (BATCH_ROWS - 1)
        assert self.check(*before, 2, 3) == []
        assert self.check(*before, 2, 0) == [
            f"row {BATCH_ROWS} is a correct-from (2) that no correct-to (3) directly follows"
        ]

    @given(st.lists(st.sampled_from([0, 1, 2, 3, "pair"]), min_size=1, max_size=12))
    def test_law_only_whole_pairs_pass(self, parts: Sequence[int | str]) -> None:
        operations = [int(one) for part in parts for one in ((2, 3) if part == "pair" else (part,))]
        rest = "".join(map(str, operations)).replace("23", "")
        assert (self.check(*operations) == []) is not any(half in rest for half in "23")


def test_the_interval_is_the_number_of_rows() -> None:
    assert check(slice_table(), rules(rows=6)) == ["the slice has 5 rows, its interval [0, 5] means 6"]
    assert check(slice_table(), rules(interval=OffsetInterval(start=5, end=0))) != []


def test_the_last_row_of_a_long_slice_is_checked_too() -> None:
    rows = 150_000
    table = slice_table(rows=rows).set_column(0, "offset", pa.array([*range(rows - 1), rows]))
    assert check(table, rules(rows=rows)) == ["row 150000 has the offset 150000, 149999 is expected"]


def test_each_rule_is_reported_once() -> None:
    rows = 200_000
    table = slice_table(rows=rows).set_column(1, "op", pa.array([9] * rows, pa.int32()))
    assert len(check(table, rules(rows=rows))) == 1


def test_unsigned_and_renamed_columns_of_others_pass() -> None:
    table = slice_table()
    table = table.set_column(0, "offset", table["offset"].cast(pa.uint64()))
    table = table.set_column(1, "op", table["op"].cast(pa.uint8()))
    declared = arrow_to_data_schema(
        pa.schema([field.with_type(pa.uint64()) if field.name == "offset" else field for field in SCHEMA])
    )
    assert check(table, rules(data_schema=declared)) == []


def test_an_offset_beyond_signed_integers_is_an_error() -> None:
    table = slice_table(rows=1).set_column(0, "offset", pa.array([2**64 - 1], pa.uint64()))
    with pytest.raises(InvalidData):
        check(table, rules(rows=1))


def test_an_unreadable_file_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_bytes(b"PAR1 no slice")
    with pytest.raises(InvalidData, match="Not a readable Parquet file"):
        check_slice_rows(path, rules())


INTEGERS = st.sampled_from([pa.int8(), pa.int64(), pa.uint8(), pa.uint64()])
NAMES = st.permutations(["system_time", "event_time", "x", "y"])


@given(tables(rows_max=4), st.data())
def test_law_any_file_gives_texts_or_an_error_with_a_name(found: pa.Table, data: st.DataObject) -> None:
    """Law: any file gives texts or a named error.

    Columns of any types under the names of system columns, judged by a schema of any other types.
    """
    table = _named(parquet_can_hold(found), data.draw(NAMES))
    for name in ("offset", "op"):
        values = arrays(data.draw(INTEGERS), len(table), nulls=data.draw(st.booleans()))
        table = table.append_column(name, data.draw(values))
    file, schema = in_memory(table), None
    with suppress(IncompatibleSchema):
        schema = arrow_to_data_schema(_named(data.draw(tables(rows_max=0)), data.draw(NAMES)).schema)
    given = rules(
        data.draw(st.integers(0, 9)),
        data.draw(st.integers(1, 9)),
        data_schema=schema,
        system_time=data.draw(st.none() | st.just(INSTANT)),
        older_rows=data.draw(st.booleans()),
        event_time_required=True,
        whole_corrections=True,
    )
    with suppress(InvalidData, IncompatibleSchema):
        examined = examine_slice(file, given)
        assert list(examined.problems) == check_slice_rows(file, given)


def _named(table: pa.Table, names: Sequence[str]) -> pa.Table:
    return table.rename_columns(names[: table.num_columns])
