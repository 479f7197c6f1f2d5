"""Columns that a slice leaves unchanged, against a row-by-row oracle."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.model.operation import OperationType
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.usecases.events.unchanged_columns import unchanged_columns

Row = tuple[int, int, str | None, tuple[int, ...] | None]
"""Operation, a number, a text, a list."""

VOCABULARY = DatasetVocabulary()
SCHEMA = pa.schema([("op", pa.int32()), ("n", pa.int64()), ("text", pa.string()), ("list", pa.list_(pa.int64()))])
APPEND, RETRACT, FROM, TO = (
    OperationType.APPEND.value,
    OperationType.RETRACT.value,
    OperationType.CORRECT_FROM.value,
    OperationType.CORRECT_TO.value,
)

values = st.tuples(
    st.integers(0, 1), st.sampled_from([None, "", "a"]), st.sampled_from([None, (), (1,), (1, 2)]), st.integers(0, 1)
)


@st.composite
def slices(draw: st.DrawFn) -> list[Row]:
    """Mostly corrections of which some change nothing."""
    rows: list[Row] = []
    for number, text, items, other in draw(st.lists(values, min_size=1, max_size=6)):
        rows += [(FROM, number, text, items), (TO, number, "b" if other else text, items)]
    if draw(st.integers(0, 4)) == 0:
        strange = (draw(st.sampled_from([APPEND, RETRACT, FROM, TO])), 0, None, None)
        rows.insert(draw(st.integers(0, len(rows))), strange)
    return rows


def batches(rows: list[Row], size: int) -> list[pa.RecordBatch]:
    """In pieces of so many rows."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = pa.table([pa.array(column, field.type) for column, field in zip(columns, SCHEMA, strict=True)], SCHEMA)
    return list(table.to_batches(max_chunksize=size))


def oracle(rows: list[Row]) -> set[str]:
    pairs = list(zip(rows[::2], rows[1::2], strict=False))
    if len(rows) % 2 or any((old[0], new[0]) != (FROM, TO) for old, new in pairs):
        return set()
    return {
        name for place, name in enumerate(SCHEMA.names) if place and all(old[place] == new[place] for old, new in pairs)
    }


@given(rows=slices(), size=st.integers(1, 5))
def test_a_column_is_unchanged_if_every_correction_leaves_its_value(rows: list[Row], size: int) -> None:
    assert unchanged_columns(batches(rows, size), VOCABULARY) == oracle(rows)


@pytest.mark.parametrize("operation", [APPEND, RETRACT])
def test_rows_that_come_or_go_change_every_column(operation: int) -> None:
    corrected: list[Row] = [(FROM, 1, "a", None), (TO, 1, "a", None)]
    assert unchanged_columns(batches(corrected, 1), VOCABULARY) == {"n", "text", "list"}
    assert unchanged_columns(batches([*corrected, (operation, 1, "a", None)], 2), VOCABULARY) == set()


def test_no_rows_change_nothing_that_could_be_named() -> None:
    assert unchanged_columns([], VOCABULARY) == set()
