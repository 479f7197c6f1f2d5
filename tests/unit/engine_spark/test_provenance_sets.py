"""Sets of records in provenance, against plain Python."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from odfabric.model.provenance import RANGES_LISTED_MAX, ProvenanceKind
from odfabric_engine_spark.provenance.answer import AnswerRows, listed
from odfabric_engine_spark.provenance.circuit.terms import covered
from odfabric_engine_spark.provenance.equal_rows import places_of
from odfabric_engine_spark.provenance.past_rows import KnownRows
from odfabric_engine_spark.provenance.states import Pool


def known(records: list[tuple[int, int]]) -> KnownRows:
    """Records of (value, weight) in order."""
    rows = pa.table({"v": pa.array([value for value, _ in records], pa.int64())})
    operations = np.array([0 if weight > 0 else 1 for _, weight in records], np.int64)
    return KnownRows(np.arange(len(records), dtype=np.int64), operations, rows, ("v",))


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([1, -1])), max_size=20), st.data())
def test_what_is_there_is_what_a_stack_has(records: list[tuple[int, int]], data: st.DataObject) -> None:
    """A withdrawal takes the latest equal row; without one it cancels the next."""
    taken = np.array(data.draw(st.lists(st.booleans(), min_size=len(records), max_size=len(records))), dtype=bool)
    stacks: dict[int, list[int]] = defaultdict(list)
    owed: dict[int, int] = defaultdict(int)
    for at, (value, weight) in enumerate(records):
        if not taken[at]:
            continue
        if weight < 0:
            if stacks[value]:
                stacks[value].pop()
            else:
                owed[value] += 1
        elif owed[value]:
            owed[value] -= 1
        else:
            stacks[value].append(at)
    found = np.flatnonzero(known(records).there(taken)).tolist()
    assert found == sorted(at for stack in stacks.values() for at in stack)
    assert known(records).owed(taken) == any(owed.values())


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=8))
def test_ranges_cover_what_lies_in_some(pairs: list[tuple[int, int]]) -> None:
    """Overlapping and empty ranges included."""
    ends = [(min(pair), max(pair)) for pair in pairs]
    begins, stops = (np.array([pair[at] for pair in ends], np.int64) for at in (0, 1))
    found = covered(begins, stops, 31).tolist()
    assert found == sorted({at for begin, end in ends for at in range(begin, end)})


@given(st.sets(st.integers(0, 400), min_size=1))
def test_ranges_of_offsets_list_all_or_say_that_there_are_more(offsets: set[int]) -> None:
    """Ranges are disjoint, ascending, and hold exactly the offsets."""
    (found,) = listed([(1, np.array(sorted(offsets), np.int64))])
    members = [at for each in found.ranges for at in range(each.begin, each.end)]
    assert found.count == len(offsets)
    assert len(found.ranges) <= RANGES_LISTED_MAX
    assert members == sorted(offsets)[: len(members)]
    assert found.more == (len(members) < len(offsets))


def test_rows_of_an_answer_are_sorted_and_each_record_is_one_range(tmp_path: object) -> None:
    """A page of an answer is a range of rows."""
    rows = AnswerRows()
    rows.add(7, ProvenanceKind.TRIGGER, 0, np.array([3], np.int64))
    rows.add(5, ProvenanceKind.WITNESSES, 1, np.array([4, 2], np.int64))
    rows.add(7, ProvenanceKind.WITNESSES, 0, np.array([9], np.int64))
    count, ranges = rows.write(tmp_path / "answer")  # type: ignore[operator]
    assert AnswerRows().write(tmp_path / "nothing") == (0, {})  # type: ignore[operator]
    assert count == 4
    assert {record: (each.begin, each.end) for record, each in ranges.items()} == {5: (0, 2), 7: (2, 4)}


def test_equal_rows_have_close_floats_and_equal_everything_else() -> None:
    """A float may have been added in another order."""
    schema = pa.schema([pa.field("k", pa.string()), pa.field("x", pa.float64())])
    rows = pa.table({"k": ["a", "a", None, "b"], "x": [0.3, 0.1 + 0.2, None, float("nan")]}, schema=schema)
    wanted = pa.table({"k": ["a", None, "b", "c"], "x": [0.3, None, float("nan"), 1.0]}, schema=schema)
    assert [each.tolist() for each in places_of(wanted, rows)] == [[0, 1], [2], [3], []]


@given(st.lists(st.sampled_from([(0,), (1,), (2, 3)]), max_size=12), st.data())
def test_halves_of_a_correction_are_one_change(changes: list[tuple[int, ...]], data: st.DataObject) -> None:
    """Of the numbers, and only where both halves are among them."""
    operations = [op for change in changes for op in change]
    rows = pa.table({"v": pa.array([0] * len(operations), pa.int64())})
    one = KnownRows(np.arange(len(operations), dtype=np.int64), np.array(operations, np.int64), rows, ("v",))
    pool = Pool(("a",), {"a": one}, {})
    some = sorted(data.draw(st.sets(st.sampled_from(range(len(operations))))) if operations else ())
    found = [each.tolist() for each in pool.changes(np.array(some, np.int64))]
    assert [number for each in found for number in each] == some
    pairs = [[at, at + 1] for at in some if operations[at] == 2 and at + 1 in some]
    assert [each for each in found if len(each) > 1] == pairs
    (whole,) = [each.tolist() for _, each in pool.whole_corrections(np.array(some, np.int64))] if some else ([],)
    halves = {at + 1 for at in some if operations[at] == 2} | {at - 1 for at in some if operations[at] == 3}
    assert whole == sorted({*some, *halves})
