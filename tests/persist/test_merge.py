"""Merges in bounded memory equal full consolidation, for every column type."""

from __future__ import annotations

import datetime
import decimal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric_persist.batch import BatchLimits, refer_batch, write_batch
from odfabric_persist.client import PersistClient, PersistSettings, Shard
from odfabric_persist.compact import compact
from odfabric_persist.errors import Corrupt, Determinate, UsageError
from odfabric_persist.location.memory import MemoryBlob, MemoryConsensus
from odfabric_persist.merge import MergeLimits, Window, merge_runs, merged
from odfabric_persist.rows import DIFF, TIME, RowCodec, advanced, concatenated
from odfabric_persist.state import Batch
from tests.support.turns import examples

ENTRY = pa.struct([pa.field("name", pa.string()), pa.field("sizes", pa.list_(pa.float32()))])
CODEC = RowCodec(
    pa.schema(
        [
            pa.field("id", pa.int32()),
            pa.field("key", pa.list_(pa.string())),
            pa.field("price", pa.float64()),
            pa.field("entry", ENTRY),
            pa.field("labels", pa.map_(pa.string(), pa.int16())),
        ]
    ),
    ("id", "key"),
)
NAN = float("nan")
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.one_of(st.none(), st.integers(0, 2)),
            "key": st.sampled_from([None, [], [""], [None], ["a", "b"], ["a)(b"], ["ab"]]),
            "price": st.sampled_from([None, 0.0, -0.0, NAN, 1.5]),
            "entry": st.sampled_from([None, {"name": None, "sizes": None}, {"name": "(", "sizes": [0.0, None]}]),
            "labels": st.sampled_from([None, [], [("k", 1)], [("k", None), ("j", 2)]]),
            TIME: st.integers(0, 5),
            DIFF: st.sampled_from([1, 1, -1]),
        }
    ),
    max_size=12,
)


def open_shard(codec: RowCodec, **limits: int) -> Shard:
    settings = PersistSettings(limits=BatchLimits(**{"inline_bytes_max": 0, **limits}))
    return PersistClient(MemoryBlob(), MemoryConsensus(), settings, wait=lambda _: None).open("s", codec)


@settings(max_examples=60, deadline=None)
@given(st.lists(ROWS, max_size=4), st.integers(1, 9), st.integers(2, 3), st.integers(0, 6), st.booleans())
def test_a_bounded_merge_is_the_whole_one(
    batches: list[list[dict[str, Any]]], rows_max: int, runs_max: int, to: int, outside: bool
) -> None:
    tables = [pa.Table.from_pylist(rows, CODEC.update_schema) for rows in batches]
    shard = open_shard(CODEC, part_rows=3)
    shard.resolve = lambda name: tables[int(name)]
    written: list[Batch] = []
    for number, table in enumerate(tables):
        refer = outside and number % 2
        references = [(str(number), table.num_rows)]
        written.append(refer_batch(shard.parts, references, 0, 6) if refer else write_batch(shard.parts, table, 0, 6))
    limits = MergeLimits(rows_max=rows_max, runs_max=runs_max)
    chunks = list(merged(shard.parts, written, Window(to=to), limits))
    wanted = CODEC.consolidated(advanced(concatenated(tables, CODEC.update_schema), to))
    assert repr(concatenated(chunks, CODEC.update_schema).to_pylist()) == repr(wanted.to_pylist())
    assert all(0 < chunk.num_rows <= rows_max for chunk in chunks)


@settings(max_examples=examples(100), deadline=None)
@given(ROWS, ROWS, st.randoms(use_true_random=False))
def test_consolidation_adds_up_as_a_dictionary_does(rows: list[Any], more: list[Any], random: Random) -> None:
    both = [*rows, *more, *rows]
    found = CODEC.consolidated(pa.Table.from_pylist(both, CODEC.update_schema)).to_pylist()
    net: Counter[str] = Counter()
    for row in pa.Table.from_pylist(both, CODEC.update_schema).to_pylist():
        net[repr({name: value for name, value in row.items() if name != DIFF})] += row[DIFF]
    shown = [(repr({name: value for name, value in row.items() if name != DIFF}), row[DIFF]) for row in found]
    assert dict(shown) == {row: diff for row, diff in net.items() if diff}
    assert len(shown) == len(dict(shown))
    random.shuffle(both)
    again = CODEC.consolidated(pa.Table.from_pylist(both, CODEC.update_schema))
    assert repr(again.to_pylist()) == repr(found), "the order is not of the rows alone"
    assert repr(CODEC.sorted(again).to_pylist()) == repr(found)
    ids = [(row["id"] is None, row["id"] or 0) for row in found]
    assert ids == sorted(ids)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.bool_(), [False, True]),
        (pa.int8(), [-1, 1]),
        (pa.uint64(), [1, 2**64 - 1]),
        (pa.float16(), [1.0, 2.0]),
        (pa.decimal128(5, 2), [decimal.Decimal("1.10"), decimal.Decimal("1.20")]),
        (pa.decimal256(40, 2), [decimal.Decimal("-1.10"), decimal.Decimal("1.20")]),
        (pa.date32(), [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)]),
        (pa.time64("us"), [datetime.time(1), datetime.time(2)]),
        (pa.timestamp("ms", "UTC"), [0, 1]),
        (pa.duration("s"), [0, 1]),
        (pa.large_string(), ["", "ä"]),
        (pa.large_binary(), [b"", b"\xff"]),
        (pa.binary(2), [b"ab", b"b("]),
        (pa.list_(pa.int64(), 2), [[1, 2], [1, None]]),
        (pa.large_list(pa.list_(pa.bool_())), [[[True], []], [[True]]]),
        (pa.struct([pa.field("at", pa.timestamp("us"))]), [{"at": 1}, {"at": None}]),
        (pa.map_(pa.int32(), pa.list_(pa.decimal128(3, 1))), [[(1, [decimal.Decimal(1)])], [(1, [])]]),
    ],
    ids=str,
)
def test_every_type_is_stored_told_apart_and_added_up(kind: pa.DataType, values: list[Any]) -> None:
    codec = RowCodec(pa.schema([pa.field("v", kind)]), ())
    column = pa.array([*values, None, *values, None, values[0]], kind)
    updates = pa.table({"v": column, TIME: [0] * 7, DIFF: [1] * 6 + [-2]}, codec.update_schema)
    shard = open_shard(codec)
    shard.open_writer().compare_and_append(updates, 0, 1)
    found = shard.snapshot(0)
    assert found.column("v").to_pylist() == pa.array([values[1], None], kind).to_pylist()
    assert found.column(DIFF).to_pylist() == [2, 2]
    assert concatenated(list(shard.snapshot_chunks(0, 1)), codec.update_schema).equals(found)
    inline = open_shard(codec, inline_bytes_max=4096)
    inline.open_writer().compare_and_append(updates, 0, 1)
    assert inline.newest().blob_keys == set(inline.newest().rollups.values())
    assert inline.snapshot(0).equals(found)


@pytest.mark.parametrize(
    "kind",
    [
        pa.dictionary(pa.int8(), pa.string()),
        pa.list_(pa.dictionary(pa.int8(), pa.string())),
        pa.struct([]),
        pa.string_view(),
        pa.month_day_nano_interval(),
        pa.dense_union([pa.field("a", pa.int8())]),
    ],
    ids=str,
)
def test_what_has_no_canonical_form_is_refused(kind: pa.DataType) -> None:
    with pytest.raises(UsageError, match="unsupported-column"):
        RowCodec(pa.schema([pa.field("v", kind)]), ())


def test_rows_that_fit_are_held_a_few_at_a_time() -> None:
    codec = RowCodec(pa.schema([pa.field("k", pa.int64())]), ("k",))
    asked: list[int] = []

    def run(offset: int) -> Any:
        def opened(rows: int) -> Iterator[pa.Table]:
            for start in range(offset, 10_000, rows * 4):
                asked.append(rows)
                keys = [start + 4 * index for index in range(rows)]
                yield pa.table({"k": keys, TIME: [0] * rows, DIFF: [1] * rows}, codec.update_schema)

        return opened

    chunks = merge_runs(codec, [run(offset) for offset in range(4)], 100)
    sizes = [chunk.num_rows for chunk in chunks]
    assert set(asked) == {25}
    assert sum(sizes) == 10_000
    assert max(sizes) <= 2 * 100


def test_one_run_of_several_parts_comes_out_and_its_input_may_be_larger_than_memory(tmp_path: Path) -> None:
    codec = RowCodec(pa.schema([pa.field("k", pa.int64())]), ("k",))
    shard = open_shard(codec, part_rows=100)
    shard.resolve = lambda name: pa.table(
        {"k": pa.array(range(500))[::-1], TIME: [int(name)] * 500, DIFF: [1] * 500}, codec.update_schema
    )
    writer = shard.open_writer()
    for number in range(6):
        writer.append_references([(str(number), 500)], number, number + 1)
    batches = shard.newest().batches
    limits = MergeLimits(rows_max=300, runs_max=2, spill_folder=tmp_path)
    output = compact(shard.parts, batches, 0, 6, 5, limits=limits)
    assert [part.rows for part in output.parts] == [100] * 5
    assert [len(run) for run in output.runs] == [5]
    assert list(tmp_path.iterdir()) == [], "spilled runs are left"
    keys = [row["k"] for part in output.parts for row in shard.parts.read(part).to_pylist()]
    assert keys == list(range(500))


def test_tables_that_come_one_by_one_are_one_batch() -> None:
    codec = RowCodec(pa.schema([pa.field("k", pa.int64())]), ("k",))
    shard = open_shard(codec, part_rows=100)
    taken = 0

    def tables() -> Iterator[pa.Table]:
        nonlocal taken
        for start in range(0, 1000, 30):
            stored = sum(1 for _ in shard.machine.blob.list("s/part-"))
            assert taken - 100 * stored < 130, "more than a part is in memory"
            keys = list(range(start, min(start + 30, 1000)))
            taken += len(keys)
            yield pa.table({"k": keys, TIME: [0] * len(keys), DIFF: [1] * len(keys)})

    writer = shard.open_writer()
    batch = writer.write_batch(tables(), 0, 1)
    assert [[part.rows for part in run] for run in batch.runs] == [[100] * 10]
    assert writer.append_batches([batch], 0, 1) == 1
    assert shard.snapshot(0).column("k").to_pylist() == list(range(1000))
    with pytest.raises(UsageError, match="update-beyond-upper"):
        writer.write_batch(iter([pa.table({"k": [1], TIME: [2], DIFF: [1]})]), 1, 2)


class FullBlob(MemoryBlob):
    """A store that takes so many values more, then none."""

    room = 1 << 30

    def set(self, key: str, value: bytes) -> None:
        if not self.room:
            raise Determinate("no room")
        self.room -= 1
        super().set(key, value)


def test_a_merge_that_fails_leaves_nothing_behind() -> None:
    blob = FullBlob()
    settings = PersistSettings(limits=BatchLimits(inline_bytes_max=0, part_rows=2), attempts_max=1)
    client = PersistClient(blob, MemoryConsensus(), settings, wait=lambda _: None)
    codec = RowCodec(pa.schema([pa.field("k", pa.int64())]), ("k",))
    shard = client.open("s", codec)
    writer = shard.open_writer()
    for number in range(3):
        rows = {"k": [2 * number, 2 * number + 1], TIME: [number] * 2, DIFF: [1, 1]}
        writer.compare_and_append(pa.table(rows, codec.update_schema), number, number + 1)
    before = sorted(entry.key for entry in blob.list(""))
    last = shard.newest().batches[2].parts[0].key
    assert last is not None
    value = blob.get(last)
    assert value is not None
    blob.set(last, b"damaged")
    with pytest.raises(Corrupt):
        compact(shard.parts, shard.newest().batches, 0, 3, 0, limits=MergeLimits(rows_max=2))
    blob.set(last, value)
    for work in (
        lambda: compact(shard.parts, shard.newest().batches, 0, 3, 0),
        lambda: write_batch(shard.parts, pa.table({"k": range(6), TIME: [3] * 6, DIFF: [1] * 6}), 3, 4),
    ):
        blob.room = 2
        with pytest.raises(Determinate, match="no room"):
            work()
        assert sorted(entry.key for entry in blob.list("")) == before
