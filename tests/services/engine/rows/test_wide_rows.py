"""Large rows: pieces end by bytes, and memory beyond the request's is refused."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pytest

from odfabric.errors import LimitExceeded
from odfabric.model.engine import TRANSACTION_SIZE_LIMIT
from odfabric_engine_spark.rows.input_rows import InputRows
from odfabric_engine_spark.spark.frames import local_rows as rows_of_spark
from odfabric_engine_spark.spark.frames.local_rows import local_rows
from odfabric_engine_spark.spark.frames.result_rows import ResultTooLarge
from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.transforming import (
    CF,
    CT,
    HOUR,
    A,
    Derivative,
    Input,
    R,
    input_schema,
    results_of_at_most,
    run,
)

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("text", pa.string()))
WIDE = "w" * 1_000
QUERIES = {
    "map": "select event_time, k, text || k as text from a where k != 'b'",
    "union": "select event_time, k, text from a union all select event_time, k, '' from b",
    "sums": "select max(event_time) event_time, k, count(*) n, max(text) last from a group by k",
    "distinct": "select distinct event_time, text from a",
    "windows": "select window.start as event_time, max(text) last from a group by window(event_time, '1 hour')",
    "join": "select a.event_time, a.k, a.text from a join b on a.k = b.k",
}
PIECES: Mapping[str, Mapping[str, int]] = {
    "rows": {"transform_piece_bytes": 1},
    "few": {"transform_piece_bytes": 2_500},
}


def inputs(own: Lab) -> list[Input]:
    """Two inputs; a correction spans each boundary that pieces may have."""
    one, other = Input(own.folder, "a", SCHEMA), Input(own.folder, "b", SCHEMA, number=2)
    for block in range(3):
        new = [(A, HOUR * block, key, f"{WIDE}{key}{block}") for key in "abc"]
        corrected = [(CF, HOUR * block, "a", f"{WIDE}a{block}"), (CT, HOUR * block, "a", f"{WIDE}A{block}")]
        gone = [(R, HOUR * block, "c", f"{WIDE}c{block}")]
        one.add([*new, *corrected, *gone], watermark=HOUR * block)
        other.add([(A, HOUR * block, "a", WIDE), (A, HOUR * block, "c", WIDE)], watermark=HOUR * block)
    return [one, other]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows were read at once, whenever some were."""
    found: list[int] = []
    plain = InputRows.take

    def counting(self: InputRows, count: int, *, bytes_max: int) -> pa.Table:
        rows = plain(self, count, bytes_max=bytes_max)
        found.append(rows.num_rows)
        return rows

    monkeypatch.setattr(InputRows, "take", counting)
    return found


@pytest.mark.parametrize("sizes", PIECES.values(), ids=PIECES)
@pytest.mark.parametrize("query", QUERIES)
def test_how_large_pieces_are_changes_no_byte(lab: Lab, query: str, sizes: Mapping[str, int], taken: list[int]) -> None:
    own = own_lab(lab)
    given = [one for one in inputs(own) if f"{one.alias}." in QUERIES[query] or f"from {one.alias}" in QUERIES[query]]
    whole, parts = (
        Derivative(QUERIES[query], given, own.call, name=name, settings=each)
        for name, each in (("whole", {}), ("parts", sizes))
    )
    for upto in (2, 3):
        one = whole.pull([upto] * len(given))
        most, taken[:] = max(taken), []
        other = parts.pull([upto] * len(given))
        assert most >= 5
        assert max(taken) == 1 if sizes["transform_piece_bytes"] == 1 else max(taken) < most
        taken.clear()
        assert other.records == one.records
        assert other.slice_path.read_bytes() == one.slice_path.read_bytes()
        assert other.checkpoint_path.read_bytes() == one.checkpoint_path.read_bytes()


@pytest.mark.parametrize("query", ["sums", "distinct", "windows", "join"])
def test_more_than_may_be_in_hand_is_refused_and_nothing_else_changes(lab: Lab, query: str) -> None:
    own = own_lab(lab)
    given = [one for one in inputs(own) if f"{one.alias}." in QUERIES[query] or f"from {one.alias}" in QUERIES[query]]
    derived = Derivative(QUERIES[query], given, own.call)
    request = derived.request()
    plain = run(request, derived.call)
    content = plain.slice_path.read_bytes(), plain.checkpoint_path.read_bytes()
    with pytest.raises(LimitExceeded) as refused:
        run(replace(request, bytes_in_hand_max=3_000), derived.call)
    assert (refused.value.limit, refused.value.maximum) == (TRANSACTION_SIZE_LIMIT, 3_000)
    roomy = run(replace(request, bytes_in_hand_max=1_000_000), derived.call)
    assert (roomy.slice_path.read_bytes(), roomy.checkpoint_path.read_bytes()) == content


def test_a_batch_that_is_read_has_no_more_than_a_piece(lab: Lab, taken: list[int]) -> None:
    """Batches of a slice end by bytes: no batch has more than a piece.

    One of 65,536 rows would be in memory before any piece is cut.
    """
    own = own_lab(lab)
    rows = [(A, 0, "k", f"{number:06}" + chr(65 + number % 26) * 40_000) for number in range(300)]
    one = Input(own.folder, "a", SCHEMA).add(rows)
    settings = replace(own.call.settings, batch_bytes=1 << 20)
    read: list[int] = []
    plain = InputRows.as_spark

    def counting(self: InputRows, batch: pa.RecordBatch, path: str) -> pa.RecordBatch:
        read.append(batch.nbytes)
        return plain(self, batch, path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(InputRows, "as_spark", counting)
        derived = Derivative(QUERIES["map"], [one], replace(own.call, settings=settings))
        assert len(derived.pull().records) == 300
    assert len(read) > 5
    assert max(read) < 2 << 20


@pytest.mark.parametrize("query", ["map", "union"])
def test_what_is_mapped_row_by_row_is_never_in_hand(lab: Lab, query: str) -> None:
    own = own_lab(lab)
    given = [one for one in inputs(own) if f"from {one.alias}" in QUERIES[query]]
    derived = Derivative(QUERIES[query], given, own.call, settings=PIECES["few"])
    assert run(replace(derived.request(), bytes_in_hand_max=1), derived.call).records


def test_spark_lets_go_of_rows_that_nobody_can_reach(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark releases unreachable rows.

    A frame is in a cycle, which Python's collector finds when it has seen many objects; rows are few and large.
    """
    monkeypatch.setattr(rows_of_spark, "HANDED_BYTES_MAX", 1)
    rows = pa.table({"text": [WIDE, WIDE]})
    gc.disable()
    try:
        frame = local_rows(lab.call.session, rows)
        frame.itself = frame  # type: ignore[attr-defined]
        known = weakref.ref(frame)
        del frame
        assert known() is not None
        local_rows(lab.call.session, rows)
        assert known() is None
    finally:
        gc.enable()


GROWING = {
    "texts": "select event_time, k, repeat(text, 4) t from a",
    "rows": "select event_time, k, n from a lateral view explode(sequence(1, 100)) e as n",
    "rows and branches": "select event_time, k, repeat(text, 4) t from a union all select event_time, k, repeat(text, 3) t from b",
    "rows that are counted": "select max(event_time) event_time, k, count(*) n, max(length(repeat(text, n))) l from"
    " (select * from a lateral view explode(sequence(1, 300)) e as n) group by k",
    "groups": "select max(event_time) event_time, k, text, repeat(text, 4) t from a group by k, text",
    "keys": "select event_time, k, rank() over (partition by repeat(text, 4) order by k) r from a",
}
"""Queries that make much of few rows."""


@pytest.fixture
def too_large(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One for each result that Spark did not collect."""
    found: list[int] = []
    monkeypatch.setattr(ResultTooLarge, "__init__", lambda _: found.append(1))
    return found


@pytest.mark.parametrize("name", GROWING)
def test_more_than_spark_collects_is_made_in_pieces(name: str, lab: Lab, too_large: list[int]) -> None:
    own = own_lab(lab)
    # Few rows would be computed while Spark plans, which collects nothing.
    own.call.session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "0")
    given = inputs(own)[: 2 if " b" in GROWING[name].split("from")[-1] else 1]
    whole, parts = (Derivative(GROWING[name], given, own.call, name=way) for way in ("whole", "parts"))
    found_too_large: list[int] = []
    for upto in (2, 3):
        expected = whole.pull([upto] * len(given))
        assert not too_large
        with results_of_at_most(own.call, "10k"):
            found = parts.pull([upto] * len(given))
        found_too_large, too_large[:] = found_too_large + too_large, []
        assert found.slice_path.read_bytes() == expected.slice_path.read_bytes()
    assert found_too_large


@pytest.mark.parametrize(
    "query",
    [
        "select event_time, k, repeat(text, 40) t from a",
        "select event_time, k, rank() over (partition by repeat(text, 40) order by k) r from a",
    ],
)
def test_a_row_of_which_too_much_comes_is_a_limit(query: str, lab: Lab) -> None:
    own = own_lab(lab)
    own.call.session.conf.set("spark.sql.execution.arrow.localRelationThreshold", "0")
    (one, _) = inputs(own)
    derived = Derivative(query, [one], own.call)
    with results_of_at_most(own.call, "10k"), pytest.raises(LimitExceeded, match="collected_bytes_max"):
        derived.pull()
