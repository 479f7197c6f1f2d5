"""Rows of a state against a model that counts them."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.formats.slices.canonical_rows import row_bytes
from odfabric_engine_spark.state import compaction_tiers, run_file
from odfabric_engine_spark.state.compaction_tiers import FAN_OUT, merges, tier_of
from odfabric_engine_spark.state.net_rows import pieces
from odfabric_engine_spark.state.row_state import RowState, StateWork
from odfabric_engine_spark.state.run import CLOSES, HASH, WEIGHT, Run, RunFile, StoredAt
from odfabric_engine_spark.state.run_file import PARTS, WrittenRun, open_run
from tests.support.turns import examples

ROWS = pa.schema(
    [
        pa.field("text", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("nested", pa.struct([pa.field("a", pa.int32()), pa.field("items", pa.list_(pa.string()))])),
    ]
)
TEXTS = ("", "a", "a\0b", None)
NUMBERS = (0.0, -0.0, float("nan"), 1.5, None)
NESTED = (None, {"a": None, "items": []}, {"a": 1, "items": None}, {"a": 1, "items": ["x", None, "\0"]})

NOTHING = np.iinfo(np.int64).min

Row = tuple[int, int, int | None, int, int, int]
"""Hash, weight, closing time, and which text, number and nested value."""
rows = st.tuples(
    st.integers(0, 6),
    st.sampled_from((-2, -1, 1, 1, 1)),
    st.none(),
    st.integers(0, 3),
    st.integers(0, 4),
    st.integers(0, 3),
).map(lambda row: (row[0], row[1], None if row[0] == 0 else row[0] * 10 + row[3], *row[3:]))


@pytest.fixture(autouse=True)
def _small_tiers(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few rows make many runs, batches and merges."""
    monkeypatch.setattr(compaction_tiers, "FIRST_TIER_ROWS", 4)
    monkeypatch.setattr(run_file, "BATCH_ROWS", 5)
    monkeypatch.setattr(run_file, "BATCH_BYTES", 200)


def test_rows_that_are_merged_at_once_are_bounded_by_their_bytes() -> None:
    rows = pa.table({WEIGHT: pa.array([1] * 8, pa.int64()), "text": ["x" * 1_000] * 8})
    runs = [Run.of(np.arange(begin, begin + 16, 2, dtype=np.uint64), rows) for begin in (0, 1)]
    found = [piece.hashes.tolist() for piece in pieces(runs, 1_000, bytes_max=5_000)]
    assert sorted(each for piece in found for each in piece) == list(range(16))
    assert max(map(len, found)) <= 5
    assert [len(each.hashes) for each in pieces(runs, 1_000)] == [16]
    assert len(list(pieces(runs, 1_000, bytes_max=1))) >= 8


def work(folder: Path, *, added_bytes_max: int = 1 << 20) -> StateWork:
    return StateWork(scratch=folder, piece_rows=7, added_bytes_max=added_bytes_max, check=lambda: None)


def table(taken: Sequence[Row], *, timed: bool) -> pa.Table:
    state = RowState(ROWS, timed=timed, work=work(Path()))
    columns = {
        HASH: [row[0] for row in taken],
        WEIGHT: [row[1] for row in taken],
        CLOSES: [row[2] for row in taken],
        "text": [TEXTS[row[3]] for row in taken],
        "number": [NUMBERS[row[4]] for row in taken],
        "nested": [NESTED[row[5]] for row in taken],
    }
    return pa.table({name: columns[name] for name in state.schema.names}, schema=state.schema)


def stored(sealed: Sequence[Run | WrittenRun], schema: pa.Schema, number: int) -> list[Run]:
    """What the next transaction finds."""
    runs = []
    for position, one in enumerate(sealed):
        if isinstance(one, WrittenRun):
            body = {part: pa.py_buffer(content(one, part)) for part in PARTS}
            one = open_run(body, RunFile({}, one.batch_rows, one.never, "state"), schema)
            one.stored_at = StoredAt(str(number), str(position))
        runs.append(one)
    return runs


def content(written: WrittenRun, part: str) -> bytes:
    return written.parts[part].mapped().to_pybytes()


class Model:
    """Rows counted."""

    def __init__(self) -> None:
        self.rows: Counter[tuple[int, bytes]] = Counter()
        self.closes: dict[tuple[int, bytes], int | None] = {}

    def add(self, added: pa.Table) -> None:
        for hash_, weight, closes, known in lines(added):
            self.rows[hash_, known] += weight
            self.closes[hash_, known] = closes

    def expire_closed(self, to_us: int) -> None:
        for key, closes in self.closes.items():
            if closes is not None and closes <= to_us:
                self.rows[key] = 0

    def net(self, hashes: set[int], since: int | None = None) -> list[tuple[int, int, bytes]]:
        return sorted(
            (h, weight, known)
            for (h, known), weight in self.rows.items()
            if weight and h in hashes and (since is None or (self.closes[h, known] or since - 1) >= since)
        )


def lines(found: pa.Table) -> Iterator[tuple[int, int, int | None, bytes]]:
    closes = found.column(CLOSES).to_pylist() if CLOSES in found.column_names else [None] * found.num_rows
    known = row_bytes([found.combine_chunks().column(name).combine_chunks() for name in ROWS.names])
    hashes, weights = found.column(HASH).to_pylist(), found.column(WEIGHT).to_pylist()
    return zip(hashes, weights, closes, known.to_pylist(), strict=True)


def net(found: pa.Table) -> list[tuple[int, int, bytes]]:
    places = [(hash_, -1 if closes is None else closes, known) for hash_, _, closes, known in lines(found)]
    assert places == sorted(places)
    return sorted((hash_, weight, known) for hash_, weight, _, known in lines(found))


step = st.one_of(
    st.lists(rows, max_size=12).map(lambda found: ("add", found)),
    st.lists(rows, max_size=12).map(lambda found: ("grow", found)),
    st.sets(st.integers(0, 7)).map(lambda found: ("look up", found)),
    st.lists(rows, max_size=5).map(lambda found: ("weigh", found)),
    st.tuples(st.sets(st.integers(0, 7)), st.integers(0, 70)).map(lambda found: ("look up since", found)),
    st.just(("seal", False)),
    st.just(("seal", True)),
    st.just(("prepare", None)),
    st.integers(0, 70).map(lambda found: ("drop", found)),
)


@settings(max_examples=examples(120), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(step, max_size=25), timed=st.booleans(), added_bytes_max=st.sampled_from((0, 1 << 20)))
def test_a_state_is_its_net_rows(
    tmp_path: Path, steps: list[tuple[str, object]], timed: bool, added_bytes_max: int
) -> None:
    limits = work(tmp_path, added_bytes_max=added_bytes_max)
    state, model = RowState(ROWS, timed=timed, work=limits), Model()
    dropped_to = None
    for number, (what, argument) in enumerate(steps):
        if what == "add":
            added = table([row for row in argument if dropped_to is None or (row[2] or 99) > dropped_to], timed=timed)
            state.add_run(state.as_run(added))
            model.add(added)
        elif what == "grow":
            added = table([row for row in argument if dropped_to is None or (row[2] or 99) > dropped_to], timed=timed)
            grow(state, added)
            model.add(added)
        elif what == "look up":
            assert net(state.of_keys(pa.array(sorted(argument), pa.uint64()))) == model.net(argument)
        elif what == "look up since" and timed:
            hashes, since = np.array(sorted(argument[0]), np.uint64), np.full(len(argument[0]), argument[1])
            found = state.closing_since(hashes, since)
            assert net(found) == model.net(argument[0], argument[1])
            assert state.counts_since(hashes, since).sum() >= found.num_rows
        elif what == "weigh":
            asked = table(sorted(argument), timed=timed)
            weights = state.weights_of_rows(asked.column(HASH).to_numpy(), asked.drop_columns([HASH, WEIGHT]))
            assert weights.tolist() == [model.rows[hash_, known] for hash_, _, _, known in lines(asked)]
        elif what == "drop" and timed:
            dropped_to = max(argument, dropped_to or 0)
            state.expire_closed(argument)
            model.expire_closed(argument)
        elif what == "prepare":
            state.prepare()
        elif what == "seal":
            runs = stored(state.to_store(whole=argument), state.stored_schema, number)
            assert not (argument and len(runs) > 1)
            state = RowState(ROWS, timed=timed, work=limits, runs=runs, dropped_to_us=state.dropped_to_us)
    pieces = list(state.everything(3))
    assert [row for piece in pieces for row in net(piece)] == model.net(set(range(8)))
    assert state.rows >= sum(map(len, pieces))
    if timed:
        _check_close_times(state, model, dropped_to)


def grow(state: RowState, added: pa.Table) -> None:
    """Adds rows in runs of two hashes each, one after the other."""
    grown = state.grow()
    hashes = added.column(HASH).to_numpy()
    for least in range(0, 8, 2):
        grown.add(state.as_run(added.filter(pa.array((hashes >= least) & (hashes < least + 2)))))
    state.add_grown(grown)


def _check_close_times(state: RowState, model: Model, dropped_to: int | None) -> None:
    """Every row that closes is found in its time.

    What is found beside it was there once, and is not dropped.
    """
    for above, to in ((None, 70), (20, 40), (33, 33), (None, 9)):
        found = state.closing(above, to).to_pylist()
        inside = {
            key
            for key, closes in model.closes.items()
            if closes is not None and (above is None or closes > above) and closes <= to
        }
        assert {key[0] for key in inside if model.rows[key]} <= set(found) <= {key[0] for key in inside}
        assert found == sorted(set(found))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(taken=st.lists(rows, min_size=1, max_size=40), cuts=st.lists(st.integers(0, 40)), seed=st.randoms())
def test_bytes_do_not_depend_on_how_rows_were_added(
    tmp_path: Path, taken: list[Row], cuts: list[int], seed: object
) -> None:
    def bytes_of(parts: Sequence[pa.Table], added_bytes_max: int, *, prepare: bool = False) -> list[bytes]:
        state = RowState(ROWS, timed=True, work=work(tmp_path, added_bytes_max=added_bytes_max))
        for part in parts:
            state.add_run(state.as_run(part))
            if prepare:
                state.prepare()
        return sealed(state)

    def bytes_grown(added_bytes_max: int) -> list[bytes]:
        state = RowState(ROWS, timed=True, work=work(tmp_path, added_bytes_max=added_bytes_max))
        grow(state, table(shuffled, timed=True))
        return sealed(state)

    def sealed(state: RowState) -> list[bytes]:
        return [
            content(run, part) for run in state.to_store(whole=False) for part in PARTS if isinstance(run, WrittenRun)
        ]

    shuffled = list(taken)
    seed.shuffle(shuffled)
    bounds = [0, *sorted(min(cut, len(taken)) for cut in cuts), len(taken)]
    parts = [table(shuffled[begin:end], timed=True) for begin, end in itertools.pairwise(bounds)]
    expected = bytes_of([table(taken, timed=True)], 1 << 20)
    assert expected == bytes_of(parts, 0) == bytes_of(parts, 1 << 20) == bytes_of(parts, 1 << 20, prepare=True)
    assert expected == bytes_grown(0) == bytes_grown(1 << 20) == bytes_grown(1 << 10)


def test_a_run_grows_by_what_follows_only(tmp_path: Path) -> None:
    state = RowState(ROWS, timed=False, work=work(tmp_path))
    grown = state.grow()
    grown.add(state.as_run(table([(3, 1, None, 1, 1, 1)], timed=False)))
    with pytest.raises(ValueError, match="does not begin behind"):
        grown.add(state.as_run(table([(3, 1, None, 2, 1, 1)], timed=False)))


def test_unmatched_retractions_stay_and_cancel_a_later_insert(tmp_path: Path) -> None:
    state = RowState(ROWS, timed=False, work=work(tmp_path))
    state.add_run(state.as_run(table([(1, -1, None, 1, 1, 1)], timed=False)))
    assert state.of_keys(pa.array([1], pa.uint64())).column(WEIGHT).to_pylist() == [-1]
    state.add_run(state.as_run(table([(1, 1, None, 1, 1, 1)], timed=False)))
    assert state.of_keys(pa.array([1], pa.uint64())).num_rows == 0
    assert state.to_store(whole=False) == []


def test_closed_runs_are_given_up_whole_and_half_closed_ones_are_rewritten(tmp_path: Path) -> None:
    state = RowState(ROWS, timed=True, work=work(tmp_path))
    runs: list[Run] = []
    for number, times in enumerate(([10, 11], [12, 50], [60, 61])):
        state.add_run(state.as_run(table([(number + 1, 1, closes, 0, 0, 0) for closes in times], timed=True)))
        runs = stored(state.to_store(whole=False), state.stored_schema, number)
        state = RowState(ROWS, timed=True, work=work(tmp_path), runs=runs)
    state.expire_closed(20)
    kept = state.to_store(whole=False)
    assert [type(run) for run in kept] == [WrittenRun, Run]
    assert kept[0].rows == 1
    assert kept[1] is runs[2]


def test_runs_of_a_tier_are_few_and_each_row_is_copied_once_a_tier() -> None:
    sizes: list[int] = []
    copied = 0
    for _ in range(4_000):
        sizes.append(3)
        groups = merges(sizes)
        copied += sum(sum(sizes[at] for at in group) for group in groups if len(group) > 1)
        sizes = [sum(sizes[at] for at in group) for group in groups]
        assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) <= (FAN_OUT - 1) * (tier_of(sum(sizes)) + 1)
    assert copied <= sum(sizes) * (tier_of(sum(sizes)) + 1)


def test_a_large_run_takes_up_the_small_ones_before_it_only() -> None:
    assert merges([100, 3, 3, 30]) == [range(1), range(1, 4)]
    assert merges([30, 30, 3, 100]) == [range(4)]
    assert merges([100, 100]) == [range(1), range(1, 2)]


class Opened(Sequence[pa.RecordBatch]):
    """Batches that remember which of them were asked for."""

    def __init__(self, batches: Sequence[pa.RecordBatch]) -> None:
        self.batches = batches
        self.numbers: set[int] = set()

    def __len__(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> pa.RecordBatch:
        self.numbers.add(index)
        return self.batches[index]


def test_a_look_up_touches_what_it_asks_for(tmp_path: Path) -> None:
    schema = pa.schema([pa.field("v", pa.int64())])
    state = RowState(schema, timed=False, work=work(tmp_path))
    hashes = np.arange(500, dtype=np.uint64)
    state.add_run(state.as_run(pa.table([hashes, np.ones(500, dtype=np.int64), np.arange(500)], schema=state.schema)))
    (run,) = stored(state.to_store(whole=False), state.stored_schema, 0)
    run.batches = opened = Opened(run.batches)
    found = RowState(schema, timed=False, work=work(tmp_path), runs=[run]).of_keys(pa.array([7, 499, 7], pa.uint64()))
    assert found.column("v").to_pylist() == [7, 499]
    assert opened.numbers == {1, 99}


def test_a_null_and_the_least_number_are_told_apart(tmp_path: Path) -> None:
    state = RowState(pa.schema([("a", pa.int64()), ("b", pa.int64())]), timed=False, work=work(tmp_path))
    columns = {HASH: [1] * 3, WEIGHT: [1, 2, 3], "a": [None, None, NOTHING], "b": [5, 6, 1]}
    rows = pa.table(columns, schema=state.schema)
    state.add_run(state.as_run(rows))
    found = state.weights_of_rows(rows.column(HASH).to_numpy(), rows.drop_columns([HASH, WEIGHT]))
    assert found.tolist() == [1, 2, 3]


def test_rows_of_several_batches_are_taken_in_any_order(tmp_path: Path) -> None:
    state = RowState(pa.schema([("a", pa.int64())]), timed=False, work=work(tmp_path))
    columns = {HASH: np.arange(40, dtype=np.uint64), WEIGHT: np.ones(40, np.int64), "a": np.arange(40)}
    run = state.in_file(state.as_run(pa.table(columns, schema=state.schema)))
    places = [39, 0, 17, 17, 3]
    assert len(run.batches) > 1
    assert run.take(np.array(places)).column("a").to_pylist() == places
    assert run.take(np.array(places), ["a"]).column("a").to_pylist() == places
