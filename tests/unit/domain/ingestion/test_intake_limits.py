"""What a Snapshot may lose by one ingest."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.domain.ingestion.intake_limits import UNLIMITED, IntakeLimits, check_has_bytes
from odfabric.errors import InvalidData
from odfabric.model.engine import RowChanges
from odfabric.model.source import MergeStrategyAppend, MergeStrategySnapshot

SNAPSHOT = MergeStrategySnapshot(primary_key=("id",))
LIMITS = IntakeLimits(shrink_max=0.9, snapshot_rows_min=100)
COUNT = st.integers(min_value=0, max_value=300)


@given(kept=COUNT, corrected=COUNT, lost=COUNT, added=COUNT)
def test_more_than_the_share_is_refused_and_names_the_way(kept: int, corrected: int, lost: int, added: int) -> None:
    changes = RowChanges(added=added, corrected=corrected, retracted=lost, unchanged=kept)
    before = kept + corrected + lost
    if before >= 100 and lost * 10 > before * 9:
        with pytest.raises(InvalidData, match=f"{lost} would be withdrawn") as refused:
            LIMITS.check(changes, SNAPSHOT, name="export.csv")
        assert refused.value.place.file == "export.csv"
        assert "--allow-shrink" in (refused.value.hint or "")
    else:
        LIMITS.check(changes, SNAPSHOT, name="export.csv")
    UNLIMITED.check(changes, SNAPSHOT, name="export.csv")


def test_other_strategies_withdraw_only_what_is_named() -> None:
    LIMITS.check(RowChanges(retracted=1000), MergeStrategyAppend(), name="x")


@pytest.mark.parametrize("has_rows", [False, True])
def test_a_file_without_a_byte_empties_nothing(has_rows: bool) -> None:
    check_has_bytes({"x": 0}, MergeStrategyAppend(), has_rows=has_rows)
    check_has_bytes({"x": 0, "y": 1}, SNAPSHOT, has_rows=has_rows)
    if not has_rows:
        check_has_bytes({"x": 0}, SNAPSHOT, has_rows=False)
        return
    with pytest.raises(InvalidData, match="empty") as refused:
        check_has_bytes({"x": 0}, SNAPSHOT, has_rows=True)
    assert "header" in (refused.value.hint or "")
