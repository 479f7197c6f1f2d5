"""Laws L1 to L5 over random queries, changelogs, slicings; broken engines fail.

`ODF_LAW_CASES` sets the number of random cases (default 80). Each case runs 2 to 5 transactions.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from odfabric.model.instant import Instant
from odfabric_engine_spark.operators.aggregate import group_sums, group_versions, streamed_aggregate
from odfabric_engine_spark.operators.aggregate.accumulators import count_and_sum
from odfabric_engine_spark.operators.aggregate.accumulators.aggregate_functions import GroupValues
from odfabric_engine_spark.operators.aggregate.group_state import GroupState
from odfabric_engine_spark.operators.aggregate.group_versions import GroupVersions
from odfabric_engine_spark.operators.aggregate.partitioned_sums import SumsByPart
from odfabric_engine_spark.operators.row_wise import record_transaction
from odfabric_engine_spark.rows import block_steps, change_records
from odfabric_engine_spark.sql import gate
from tests.services.engine.laws.grammar.transform_cases import make_case
from tests.services.engine.laws.law_check import Lab, LawBroken, check, own_lab
from tests.support.turns import NIGHTLY

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

CASES = int(os.environ.get("ODF_LAW_CASES", "80" if NIGHTLY else "40"))
BATCH = 10
AT_ONCE = 2
"""Cases that run side by side: one alone leaves half of two cores idle."""

CASES_TO_CATCH_MAX = 60
"""Within so many random cases every broken engine must have been noticed."""


def _check_numbered(lab: Lab, number: int) -> None:
    case = make_case(number)
    try:
        check(case, own_lab(lab))
    except BaseException as error:
        error.add_note(f"case {number}: {case.query.steps} {case.inputs} {case.cuts}")
        raise


# A smaller seed means no simpler cases, so there is nothing to shrink.
@settings(
    max_examples=-(-CASES // BATCH), deadline=None, suppress_health_check=list(HealthCheck), phases=[Phase.generate]
)
@given(seed=st.integers(0, 2**32 - 1))
def test_laws_hold(lab: Lab, seed: int) -> None:
    """Each example is a batch of cases under one number of partitions."""
    chance = Random(seed)
    partitions = str(chance.randint(1, 5))
    with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(AT_ONCE) as pool:
        patch.setitem(gate.GATE_CONF, "spark.sql.shuffle.partitions", partitions)
        for checked in [pool.submit(_check_numbered, lab, chance.getrandbits(32)) for _ in range(BATCH)]:
            checked.result()


Break = Callable[[pytest.MonkeyPatch], None]


def _withdrawals_count_as_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(streamed_aggregate, "weights_of", lambda operations: np.ones(len(operations), dtype=np.int32))


def _pairs_are_not_repaired(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(record_transaction, "records", record_transaction.literal_records)


def _windows_close_late(patch: pytest.MonkeyPatch) -> None:
    def closing(ends: np.ndarray, marks: group_sums.Marks) -> np.ndarray:
        found = np.searchsorted(marks.after, ends, side="right").astype(np.int64)
        return found if marks.before_us is None else np.where(ends < marks.before_us, -1, found)

    patch.setattr(group_sums, "closing_steps", closing)
    patch.setattr(group_versions, "closing_steps", closing)


def _empty_groups_stay(patch: pytest.MonkeyPatch) -> None:
    rows = GroupValues.rows.fget
    assert rows is not None
    patch.setattr(GroupValues, "rows", property(lambda groups: np.maximum(rows(groups), 1)))


def _null_is_a_value_like_another(patch: pytest.MonkeyPatch) -> None:
    plain = group_sums.row_bytes
    patch.setattr(
        group_sums,
        "row_bytes",
        lambda columns: plain([pc.fill_null(c, "x") if c.type == pa.string() else c for c in columns]),
    )


def _what_was_shown_is_expired(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupVersions, "final_before", lambda *_: np.zeros(0, dtype=np.int64))


def _state_is_not_kept(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(GroupState, "with_run", lambda state, _: state)


def _the_fastest_input_decides(patch: pytest.MonkeyPatch) -> None:
    def greatest(marks: list[Instant | None]) -> Instant | None:
        return max((mark for mark in marks if mark is not None), default=None)

    patch.setattr(block_steps, "least", greatest)


def _unchanged_rows_are_said_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(change_records, "rows_differ", lambda rows, one, other: np.ones(len(one), dtype=bool))
    patch.setattr(change_records, "is_returned", lambda *_: False)


def _extremes_are_never_withdrawn(patch: pytest.MonkeyPatch) -> None:
    merge = count_and_sum.merge_values
    patch.setattr(count_and_sum, "merge_values", lambda groups, values, counts: merge(groups, values, abs(counts)))


def _late_rows_are_lost(patch: pytest.MonkeyPatch) -> None:
    plain = SumsByPart.summed_or_kept

    def without_late(self: SumsByPart, rows: pa.Table) -> Any:
        if self._shape.end_column is not None and self._marks.before_us is not None:
            ends = group_sums.times(rows.column(self._shape.end_column).combine_chunks())
            rows = rows.filter(pa.array(ends > self._marks.before_us))
        return plain(self, rows)

    patch.setattr(SumsByPart, "summed_or_kept", without_late)


BREAKS: dict[Break, int] = {
    _withdrawals_count_as_rows: 1,
    _pairs_are_not_repaired: 0,
    _windows_close_late: 22,
    _empty_groups_stay: 1,
    _null_is_a_value_like_another: 9,
    _what_was_shown_is_expired: 1,
    _state_is_not_kept: 1,
    _the_fastest_input_decides: 23,
    _unchanged_rows_are_said_again: 1,
    _extremes_are_never_withdrawn: 1,
    _late_rows_are_lost: 2,
}
"""How the engine is broken, and the number of the case that noticed it last time."""


@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__.strip("_"))
def test_a_broken_engine_is_noticed(broken: Break, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(monkeypatch)
    kinds = ("linear",) if broken is _pairs_are_not_repaired else ("keyed", "timed")
    numbers = sorted(range(CASES_TO_CATCH_MAX), key=lambda number: number != BREAKS[broken])
    assert any(_breaks_a_law(number, kinds, lab) for number in numbers)


def _breaks_a_law(number: int, kinds: tuple[str, ...], lab: Lab) -> bool:
    try:
        check(make_case(number, kinds), own_lab(lab), repeat=False)
    except LawBroken:
        return True
    return False
