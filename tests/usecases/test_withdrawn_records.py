"""Which record a withdrawal takes back, against stacks of equal rows."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odfabric.formats.slices import slice_parquet
from odfabric.model.why_request import WhyRequest
from odfabric.testing.changelogs import C_FROM, C_TO, A, Change, R
from odfabric.usecases.provenance import withdrawn_records
from tests.support.turns import examples
from tests.usecases.committed import Committed

ROWS = [(key, value) for key in ("a", None) for value in (0.0, -0.0, float("nan"), None)]


@st.composite
def blocks(draw: st.DrawFn) -> list[list[Change]]:
    """Blocks of changes that withdraw only rows that are there."""
    found: list[list[Change]] = []
    there: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        block: list[Change] = []
        for _ in range(draw(st.integers(1, 6))):
            new, kind = draw(st.integers(0, len(ROWS) - 1)), draw(st.sampled_from("ARC" if there else "A"))
            if kind != "A":
                old = there.pop(draw(st.integers(0, len(there) - 1)))
                block.append((R if kind == "R" else C_FROM, *ROWS[old]))
            if kind != "R":
                block.append((A if kind == "A" else C_TO, *ROWS[new]))
                there.append(new)
        found.append(block)
    return found


@pytest.mark.parametrize("large", [False, True])
@settings(max_examples=examples(60), deadline=None)
@given(found=blocks())
def test_a_withdrawal_takes_back_the_latest_equal_row(large: bool, found: list[list[Change]]) -> None:
    """Also in `large` slices, whose row groups are read column by column."""
    with pytest.MonkeyPatch.context() as patch:
        if large:
            patch.setattr(slice_parquet, "ROW_GROUP_ROWS_MAX", 2)
            patch.setattr(withdrawn_records, "SAMPLE_ROWS", 1)
            patch.setattr(withdrawn_records, "FEW", 2)
        check_withdrawn(found)


def check_withdrawn(found: list[list[Change]]) -> None:
    stacks: dict[str, list[int]] = {}
    expected: dict[int, int] = {}
    for offset, (operation, *row) in enumerate(change for block in found for change in block):
        stack = stacks.setdefault(repr(row), [])
        if operation in (A, C_TO):
            stack.append(offset)
        else:
            expected[offset] = stack.pop()
        if operation is C_TO:
            expected[offset] = offset - 1
    with tempfile.TemporaryDirectory() as name:
        committed = Committed(Path(name))
        for block in found:
            committed.commit(block, event_times=[0] * len(block))
        count = sum(map(len, found))
        answer: Any = committed.memory.node.provenance.why(committed.entry, WhyRequest(offsets=tuple(range(count))))
    assert {one["offset"]: one["corrects"] for one in answer["records"] if "corrects" in one} == expected
