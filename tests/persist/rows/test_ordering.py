"""Rows in order equal sorted rows, and unordered ones are always recognised."""

from __future__ import annotations

from random import Random

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from odfabric_persist.ordering import in_order
from odfabric_persist.rows import DIFF, TIME, RowCodec

CODEC = RowCodec(pa.schema([("key", pa.int32()), ("name", pa.string()), ("part", pa.float64())]), ("key", "name"))
ROWS = st.lists(
    st.tuples(
        st.one_of(st.none(), st.integers(0, 3)),
        st.one_of(st.none(), st.sampled_from(["", "a", "b"])),
        st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.0, float("nan")])),
        st.integers(0, 2),
        st.sampled_from([-1, 0, 1, 2]),
    ),
    max_size=8,
)


def table(rows: list[tuple[object, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(CODEC.update_schema)
    arrays = [pa.array(list(values), field.type) for values, field in zip(columns, CODEC.update_schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=CODEC.update_schema)


@given(ROWS, st.randoms(use_true_random=False))
@example([(1, "a", 0.0, 0, 1), (1, "b", 0.0, 0, 1), (2, "a", 0.0, 0, 0), (2, "a", 0.0, 1, 1)], None)
def test_consolidated_rows_stay_as_they_are_and_do_not_depend_on_their_order(
    rows: list[tuple[object, ...]], random: Random | None
) -> None:
    found = CODEC.consolidated(table(rows))
    assert shown(CODEC.consolidated(found)) == shown(found)
    shuffled = rows[::-1]
    if random is not None:
        random.shuffle(shuffled)
    assert shown(CODEC.consolidated(table(shuffled))) == shown(found)
    assert 0 not in found.column(DIFF).to_pylist()


def shown(rows: pa.Table) -> list[str]:
    """Rows as text, in which NaN is NaN and -0.0 is not 0.0."""
    return [repr(row) for row in rows.to_pylist()]


def test_rows_are_in_place_only_if_each_is_less_than_the_next() -> None:
    def in_place(*rows: tuple[object, ...]) -> bool:
        compared = CODEC.comparable(table([(*row, 0.0, 0, 1) for row in rows]), CODEC.order)
        return in_order(compared, lambda: compared.select([])).in_place

    assert in_place((1, "b"), (2, "a"), (2, "b"))
    assert not in_place((1, "b"), (1, "a"))
    assert not in_place((1, "a"), (1, "a"))
    assert not in_place((2, "a"), (1, "b"))
    assert not in_place((1, "a"), (None, "a"))
    assert in_place((1, "a"))
    assert TIME in CODEC.order
