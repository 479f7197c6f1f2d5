"""What a block says of the rows of its ingest."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.chain.block_attributes import attributes_of
from odfabric.domain.ingestion.row_changes import (
    CHANGES,
    UNDECLARED,
    added_up,
    change_attributes,
    row_changes,
    undeclared_fields,
)
from odfabric.model.data_schema import ExtraAttributes
from odfabric.model.engine import RowChanges, UndeclaredField
from odfabric.model.source import MergeStrategyAppend, MergeStrategySnapshot

COUNT = st.integers(min_value=0, max_value=2**40)
ROW_CHANGES = st.builds(
    RowChanges, added=COUNT, corrected=COUNT, retracted=COUNT, unchanged=COUNT | st.none(), known_keys=COUNT
)
UNDECLARED_FIELDS = st.lists(st.builds(UndeclaredField, name=st.text(max_size=5), rows=COUNT), max_size=3).map(tuple)
SNAPSHOT = MergeStrategySnapshot(primary_key=("id",))


def extra_of(attributes: dict[str, object]) -> ExtraAttributes:
    return ExtraAttributes(entries=json.dumps(attributes))


@given(ROW_CHANGES, UNDECLARED_FIELDS)
def test_what_is_written_is_read(changes: RowChanges, undeclared: tuple[UndeclaredField, ...]) -> None:
    extra = extra_of(change_attributes(changes, undeclared, merge=SNAPSHOT))
    assert row_changes(attributes_of(extra), records=7) == changes
    assert undeclared_fields(attributes_of(extra)) == undeclared


def test_appended_rows_leave_nothing_to_be_said() -> None:
    assert change_attributes(RowChanges(added=3), (), merge=MergeStrategyAppend()) == {}
    assert row_changes(attributes_of(None), records=3) == RowChanges(added=3)
    assert undeclared_fields(attributes_of(None)) == ()


@given(ROW_CHANGES, ROW_CHANGES, ROW_CHANGES)
def test_ingests_add_up_in_any_grouping(one: RowChanges, two: RowChanges, three: RowChanges) -> None:
    assert added_up(added_up(one, two), three) == added_up(one, added_up(two, three))
    assert added_up(one, RowChanges()) == one


@pytest.mark.parametrize(
    "entries",
    [
        "",
        "[" * 5000,
        "7",
        "{}",
        f'{{"{CHANGES}": 7, "{UNDECLARED}": 7}}',
        f'{{"{CHANGES}": {{"added": "3"}}, "{UNDECLARED}": [{{"name": "a"}}]}}',
        f'{{"{UNDECLARED}": [{{"name": "a", "rows": 1}}, {{"name": 1, "rows": 1}}]}}',
    ],
)
def test_attributes_of_another_form_say_nothing(entries: str) -> None:
    assert row_changes(attributes_of(ExtraAttributes(entries=entries)), records=2) == RowChanges(added=2)
    assert undeclared_fields(attributes_of(ExtraAttributes(entries=entries))) == ()
