"""Controls of the general engine's laws: typical faults break a law.

The engine is broken in the ways in which such engines go wrong.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from odfabric_engine_spark.compile import key_inference
from odfabric_engine_spark.compile.key_inference import Inference
from odfabric_engine_spark.execute import staged_transaction
from odfabric_engine_spark.execute.staged_transaction import StagedTransaction
from odfabric_engine_spark.operators.keyed_recompute.recompute_run import RowsRun
from odfabric_engine_spark.operators.touched_keys import before_and_after, scan_keys
from odfabric_engine_spark.plan.join_keys import RIGHT_KEPT, equal_pairs
from odfabric_engine_spark.plan.joins import outer_interval_join
from odfabric_engine_spark.plan.order_independence import order_independent_aggregates, ordered_folds, window_functions
from odfabric_engine_spark.plan.subqueries.null_aware_anti_join import NullAwareJoins
from odfabric_engine_spark.state.row_state import RowState
from tests.services.engine.laws.general_check import Tally, check_general
from tests.services.engine.laws.grammar.general_cases import GeneralCase
from tests.services.engine.laws.law_check import Lab, LawBroken, own_lab
from tests.services.engine.laws.shapes.general_shapes import shape_case

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

CASES_TO_CATCH_MAX = 12
"""Within so many cases of each of its shapes every broken engine must have been noticed."""

Break = Callable[[pytest.MonkeyPatch], None]


def _null_supplying_side_as_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_inference, "RIGHT_KEPT", RIGHT_KEPT | {"LeftOuter"})


def _expressions_of_full_joins_as_key(patch: pytest.MonkeyPatch) -> None:
    plain = Inference.carried_keys

    def carried(self: Inference, kind: str, pair: Any, component: Any, columns: dict[int, Any]) -> Any:
        if kind != "FullOuter":
            return plain(self, kind, pair, component, columns)
        make = self._catalyst.expressions.Coalesce
        sides = [pair.left, pair.right]
        return [(make(self._catalyst.seq(order)), component) for order in (sides, sides[::-1])]

    patch.setattr(Inference, "carried_keys", carried)


def _null_keys_are_dropped(patch: pytest.MonkeyPatch) -> None:
    plain = scan_keys.key_hashes
    fresh = itertools.count(1)

    def key_hashes(columns: Sequence[pa.Array], rows: int) -> np.ndarray:
        hashes = plain(columns, rows).copy()
        for column in columns:
            for position in np.nonzero(pc.is_null(column).to_numpy(zero_copy_only=False))[0]:
                hashes[position] = next(fresh)
        return hashes

    patch.setattr(scan_keys, "key_hashes", key_hashes)


def _sessions_as_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_inference, "is_session_window", lambda _: False)


def _not_in_by_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(NullAwareJoins, "is_two_valued", lambda *_: True)


def _nothing_was_before_the_first(patch: pytest.MonkeyPatch) -> None:
    plain = StagedTransaction.__init__

    def init(self: StagedTransaction, *args: Any, **more: Any) -> None:
        plain(self, *args, **{**more, "first": False})

    patch.setattr(StagedTransaction, "__init__", init)


def _ties_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(window_functions, "completed", lambda _, __, order, ___: list(order))


def _ties_of_groups_stay(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(order_independent_aggregates, "without_ties", lambda _, function: function)


def _moments_take_rows_as_they_come(patch: pytest.MonkeyPatch) -> None:
    plain = ordered_folds.fold_text
    patch.setattr(ordered_folds, "fold_text", lambda *args, **more: plain(*args, **more).replace("sort_array(", "("))


def _nothing_waits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(before_and_after, "at_watermark", lambda _, plan, __: plan.child())


def _closing_touches_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RowsRun, "closing_hashes", lambda *_: np.zeros(0, dtype=np.uint64))


def _nobody_waits_for_a_partner(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outer_interval_join, "WAITING_SIDES", {})


def _state_is_expired(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RowState, "add_run", lambda *_: None)


def _withdrawals_count_as_rows(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(staged_transaction, "weights_of", lambda operations: np.ones(len(operations), dtype=np.int32))


def _every_scan_is_linear(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_inference, "mark_linear", lambda *_: None)


def _only_new_rows_are_touched_by_wholes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RowsRun, "all_hashes", lambda *_: np.zeros(0, dtype=np.uint64))


def _what_is_made_of_keys_ties_rows_too(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(key_inference, "is_matched", lambda *_: True)


def _nulls_never_meet(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        key_inference, "equal_pairs", lambda join: [replace(each, of_nulls=False) for each in equal_pairs(join)]
    )


BREAKS: list[tuple[Break, int, tuple[str, ...]]] = [
    (_null_supplying_side_as_key, 3, ("left, grouped by the right key",)),
    (_expressions_of_full_joins_as_key, 0, ("full on an expression",)),
    (_null_keys_are_dropped, 0, ("left, grouped by the right key", "null-safe", "set of values")),
    (_sessions_as_key, 1, ("sessions",)),
    (_not_in_by_key, 0, ("not in, nulls",)),
    (_nothing_was_before_the_first, 0, ("constants on the left", "global over an aggregate")),
    (_ties_stay, 0, ("running sum of rows", "top 2", "neighbours")),
    (_ties_of_groups_stay, 0, ("greatest by another", "texts in order")),
    (_moments_take_rows_as_they_come, 3, ("moments",)),
    (_nothing_waits, 0, ("sessions", "tumbling, distinct")),
    (_closing_touches_nothing, 0, ("sessions", "hopping", "temporal")),
    (_nobody_waits_for_a_partner, 0, ("interval", "nothing within an hour")),
    (_state_is_expired, 0, ("inner", "top 2")),
    (_withdrawals_count_as_rows, 0, ("inner", "neighbours")),
    (_every_scan_is_linear, 7, ("left", "anti", "not exists")),
    (_only_new_rows_are_touched_by_wholes, 2, ("not equal", "scalar, uncorrelated")),
    (
        _what_is_made_of_keys_ties_rows_too,
        0,
        ("nulls made of equal keys, joined further", "nulls that meet, joined further"),
    ),
    (_nulls_never_meet, 0, ("null-safe", "nulls that meet nothing, and then each other")),
]
"""How the engine is broken, the shapes that are tried, and the number of the case that noticed it last time."""


@pytest.mark.parametrize(("broken", "first", "shapes"), BREAKS, ids=[each.__name__.strip("_") for each, *_ in BREAKS])
def test_a_broken_engine_is_noticed(
    broken: Break, first: int, shapes: tuple[str, ...], lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(monkeypatch)
    numbers = sorted(range(CASES_TO_CATCH_MAX), key=lambda number: number != first)
    cases = (shape_case(shape, number) for number in numbers for shape in shapes)
    assert any(_breaks_a_law(case, lab) for case in cases)


def _breaks_a_law(case: GeneralCase, lab: Lab) -> bool:
    try:
        check_general(case, own_lab(lab), Tally(), thorough=False)
    except LawBroken:
        return True
    return False
