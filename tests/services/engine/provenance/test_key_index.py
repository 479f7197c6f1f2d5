"""Indexes find the rows that a scan finds, whatever becomes of their files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.errors import LimitExceeded
from odfabric.model.engine import SliceFile
from odfabric.model.offsets import OffsetRange
from odfabric_engine_spark.arrays.kept_files import KeptFiles
from odfabric_engine_spark.provenance import key_search
from odfabric_engine_spark.provenance.history_segments import SEGMENT_ROWS_MAX, SEGMENT_SLICES_MAX, segments_of
from odfabric_engine_spark.provenance.segment_keys import ReadKeys, SortedKeys
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.state.key_hash import key_hashes
from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.laws.shapes.general_shapes import shape_case
from tests.services.engine.provenance.explaining import Answer, explained
from tests.services.engine.provenance.provenance_laws import run_case, sampled
from tests.services.engine.transforming import CF, CT, HOUR, A, Derivative, Input, R, input_schema

HASHES = st.integers(0, 6).map(lambda number: (1 << 64) - 3 + number if number < 3 else number)
"""Few, so that many rows share one, at both ends of what a hash can be."""


@given(st.lists(HASHES, max_size=60), st.lists(HASHES, unique=True))
def test_sorted_keys_find_what_read_keys_find(hashes: list[int], wanted: list[int]) -> None:
    read = ReadKeys(np.array(hashes, np.uint64))
    sought = np.unique(np.array(wanted, np.uint64))
    expected = [at for at, value in enumerate(hashes) if value in wanted]
    kept = SortedKeys.of(read)
    for keys in (read, kept):
        assert keys.places(sought).tolist() == expected
        assert keys.count(sought) == len(expected)
        assert (keys.distinct > 0) == bool(hashes)
    if hashes:
        content = memoryview(b"".join(kept.parts()))
        again = SortedKeys.read(content, len(hashes))
        assert again is not None
        assert again.places(sought).tolist() == expected
        assert SortedKeys.read(content, len(hashes) + 1) is None


@given(
    st.lists(st.one_of(st.integers(0, 40), st.integers(SEGMENT_ROWS_MAX - 1, 3 * SEGMENT_ROWS_MAX)), max_size=60),
    st.integers(1, 100),
)
def test_segments_cover_a_history_and_stay_as_it_grows(counts: list[int], rows_min: int) -> None:
    begins = np.cumsum([0, *counts]).tolist()
    slices = [SliceFile(path=f"s{at}", offsets=OffsetRange(*begins[at : at + 2])) for at in range(len(counts))]
    segments = list(segments_of(slices, rows_min=rows_min))
    assert [each.begin for each in segments] == [0, *(each.end for each in segments)][: len(segments)]
    assert sum(each.rows for each in segments) == begins[-1]
    for each in segments:
        assert 0 < each.rows <= SEGMENT_ROWS_MAX
        assert len(each.slices) <= SEGMENT_SLICES_MAX
        assert all(piece.offsets.begin < each.end and piece.offsets.end > each.begin for piece in each.slices)
    assert all(each.closed for each in segments[:-1])
    before = [each for each in segments_of(slices[:-1], rows_min=rows_min) if each.closed]
    assert segments[: len(before)] == before


def linked(derivative: Derivative) -> None:
    """Links the slices once more, as a node links them into the exchange."""
    root = derivative.call.exchange.root
    for one in derivative.inputs:
        for piece in one.slices:
            if not (root / f"kept-{piece.path}").exists():
                (root / f"kept-{piece.path}").hardlink_to(root / piece.path)


def indexing(call: EngineCall, *, bytes_max: int = 1 << 20, rows_min: int = 2) -> EngineCall:
    """The same call with indexes of segments of a few rows."""
    settings = replace(call.settings, provenance_index_rows_min=rows_min)
    return replace(call, settings=settings, kept_files=KeptFiles(call.exchange.key_indexes, bytes_max=bytes_max))


def index_files(call: EngineCall) -> list[Path]:
    folder = call.exchange.key_indexes
    return sorted(folder.iterdir()) if folder.exists() else []


def said(answer: Answer, offsets: Sequence[int]) -> list[object]:
    """What an answer says of records."""
    records = [answer.record(each) for each in offsets]
    return [(each.found, each.verified, each.witnesses, each.trigger) for each in records]


def broken(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3] + b"???")


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def check_all_ways(derivative: Derivative, number: int, offsets: Sequence[int]) -> int:
    """Asks without indexes, with new ones, with those, and after some harm.

    Returns the number of indexes.
    """
    plain = derivative.call
    linked(derivative)
    count, expected = 0, said(explained(derivative, number, offsets), offsets)
    harm: list[Callable[[Path], None] | None] = [None, None, broken, emptied, Path.unlink]
    for harmed in harm:
        derivative.call = indexing(plain)
        files = index_files(plain)
        for path in files[:: 1 if harmed is Path.unlink else 2] if harmed else ():
            harmed(path)
        assert said(explained(derivative, number, offsets), offsets) == expected
        count = len(index_files(plain))
        assert count >= len(files)
    for path in index_files(plain):
        path.unlink()
    derivative.call = indexing(plain, bytes_max=400)
    assert said(explained(derivative, number, offsets), offsets) == expected
    assert sum(path.stat().st_size for path in index_files(plain)) <= 400
    derivative.call = plain
    return count


@pytest.mark.spark
@pytest.mark.parametrize("name", ["inner:0", "left:4", "hidden key:1"])
def test_shapes_have_the_same_witnesses_with_indexes(lab: Lab, name: str) -> None:
    shape, _, number = name.rpartition(":")
    checked = run_case(shape_case(shape, int(number)), own_lab(lab))
    for transaction, offset, _, _ in sampled(checked, Random(name), 2):
        check_all_ways(checked.derivative, transaction, [offset])


VALUES: list[float | None] = [None, float("nan"), 0.0, -0.0, 1.5, -1.5]


def random_rows(chance: Random, there: list[tuple[float | None, str, int]]) -> Iterator[tuple[object, ...]]:
    """Appends, corrections and withdrawals of what is there."""
    for _ in range(chance.randrange(1, 9)):
        row = (chance.choice(VALUES), chance.choice("xyz"), chance.randrange(3 * HOUR))
        old = there.pop(chance.randrange(len(there))) if there and chance.random() < 0.4 else None
        if old is not None and chance.random() < 0.5:
            yield (R, old[2], old[0], old[1])
            continue
        if old is not None:
            yield (CF, old[2], old[0], old[1])
        there.append(row)
        yield (A if old is None else CT, row[2], row[0], row[1])


@pytest.mark.spark
@pytest.mark.usefixtures("interpreted")
@pytest.mark.parametrize("tiny", [False, True], ids=["hashes", "two-hashes"])
@pytest.mark.parametrize(
    "query",
    [
        pytest.param("SELECT max(event_time) AS event_time, d, count(*) AS n FROM i GROUP BY d", id="floats"),
        pytest.param(
            "SELECT date_trunc('HOUR', event_time) AS event_time, t, count(*) AS n FROM i "
            "GROUP BY date_trunc('HOUR', event_time), t",
            id="computed",
        ),
    ],
)
def test_random_histories_have_the_same_witnesses_with_indexes(
    engine_call: EngineCall, monkeypatch: pytest.MonkeyPatch, query: str, tiny: bool
) -> None:
    """Null, NaN and both zeros as keys, corrections and withdrawals.

    Also with equal hashes of different keys.
    """
    if tiny:
        monkeypatch.setattr(key_search, "key_hashes", lambda *given: key_hashes(*given) % np.uint64(2))
    chance = Random(f"{query} {tiny}")
    one = Input(engine_call.exchange.root, "i", input_schema(pa.field("d", pa.float64()), pa.field("t", pa.string())))
    there: list[tuple[float | None, str, int]] = []
    for number in range(12):
        one.add(list(random_rows(chance, there)), watermark=number)
    derivative = Derivative(query, [one], engine_call)
    derivative.pull([9])
    derivative.pull()
    written = derivative.transactions[1].table.column("offset").to_pylist()
    assert check_all_ways(derivative, 1, written[:6])


@pytest.mark.spark
@pytest.mark.usefixtures("interpreted")
def test_an_index_answers_what_is_too_long_to_be_read(engine_call: EngineCall) -> None:
    """Files that only this call has get none: nobody would recognise them later."""
    one = Input(engine_call.exchange.root, "i", input_schema(pa.field("k", pa.int64())))
    for number in range(4):
        one.add([(A, 0, key) for key in range(10)], watermark=number)
    query = "SELECT max(event_time) AS event_time, k, count(*) AS n FROM i GROUP BY k"
    derivative = Derivative(query, [one], engine_call, settings={"provenance_scanned_rows_max": 15})
    derivative.pull()
    plain = derivative.call
    derivative.call = indexing(plain)
    with pytest.raises(LimitExceeded, match="provenance_scanned_rows_max"):
        explained(derivative, 0, [3])
    assert not index_files(plain)
    linked(derivative)
    key = derivative.transactions[0].table.column("k").to_pylist()[3]
    for _ in range(2):
        answer = explained(derivative, 0, [3])
        assert answer.witnesses(3) == {("i", 10 * block + key) for block in range(4)}
    assert len(index_files(plain)) == 4
    assert answer.result.cost.rows_read < 20, "of 40"
