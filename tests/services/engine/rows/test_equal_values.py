"""Values equal when stored though different before: zeros, times within 1 ms."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.laws.law_check import well_formed
from tests.services.engine.transforming import HOUR, A, Derivative, Input, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.int32()), pa.field("d", pa.float64()))
ZEROS = [[0.0], [-0.0], [1.0]]
SORTED = {
    "up": "sort_array(collect_list(d))",
    "down": "sort_array(collect_list(d), false)",
    "some": "slice(sort_array(collect_list(d), false), 1, 3)",
    "ordered": "array_sort(collect_list(d))",
}


@pytest.mark.parametrize("cuts", [[1, 2, 3], [2, 3], [3]])
def test_sorted_lists_know_one_zero(cuts: list[int], engine_call: EngineCall) -> None:
    one = Input(engine_call.exchange.root, "input", SCHEMA)
    for number, values in enumerate(ZEROS):
        one.add([(A, number, 1, each) for each in values])
    lists = ", ".join(f"{value} as {name}" for name, value in SORTED.items())
    derived = Derivative(f"select max(event_time) as event_time, k, {lists} from input group by k", [one], engine_call)
    records: list[tuple[object, ...]] = []
    for cut in cuts:
        found = derived.pull([cut]).records
        well_formed(records, found)
        records += found
    for shown in records[-1][3:]:
        assert isinstance(shown, list)
        assert sorted(map(str, shown)) == ["0.0", "0.0", "1.0"]


def test_a_change_below_the_millisecond_is_no_change(engine_call: EngineCall) -> None:
    one = Input(engine_call.exchange.root, "input", SCHEMA)
    for k in (1, 2, 3):
        one.add([(A, 0, k, None)])
    fine = "event_time + make_dt_interval(0, 0, 0, 0.0001) * k"
    query = f"select max(event_time) as event_time, max({fine}) as m from input"
    derived = Derivative(query, [one], engine_call)
    assert [len(derived.pull([cut]).records) for cut in (1, 2, 3)] == [1, 0, 0]


def test_sessions_need_the_same_gap_for_all_rows(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(engine_call.exchange.root, "input", SCHEMA)
    one.add([(A, 0, 1, None)], watermark=9 * HOUR)
    gap = "case when k = 1 then '30 minutes' else '1 hour' end"
    query = f"select session_window.start as event_time, k, count(*) as n from input group by session_window(event_time, {gap}), k"
    with pytest.raises(InvalidQuery, match="the same gap for all rows") as refused:
        Derivative(query, [one], engine_call).pull()
    assert refused.value.place.rule == "session-gap"
    assert refused.value.hint is not None
    written = query.replace(gap, "'30 minutes'")
    assert Derivative(written, [one], engine_call, name="same").pull().records
