"""What is said to people who write SQL as another engine has it, or as they are used to: what to write in Spark SQL instead."""

from __future__ import annotations

import pytest

from odfabric_engine_spark.call import EngineCall
from tests.services.engine.validating import validate

pytestmark = pytest.mark.spark

FUNCTIONS = [
    ("select tumble_start(event_time, interval '1' hour) event_time from a", (1, 8), "window.start: group by window("),
    ("select max(event_time) event_time from a\ngroup by tumble(event_time, interval '1' hour)", (2, 10), "group by window("),
    ("select max(event_time) event_time from a group by HOP(event_time, interval '1' hour, interval '2' hour)",
     (1, 51), "first the size, then the slide"),
    ("select session_end(event_time, interval '1' hour) event_time from a", (1, 8), "session_window.end"),
    ("select tumble_rowtime(event_time, interval '1' hour) event_time from a", (1, 8), "window.end - interval"),
    ("select window_start event_time from tumble(a, event_time, interval '1 hour') group by window_start",
     (1, 37), "group by window("),
    ("select top (10) event_time, v from a", (1, 8), "limit 10"),
    ("select event_time, charindex('a', k) x from a", (1, 20), "instr(text, 'part')"),
    ("select event_time, convert(int, k) x from a", (1, 20), "cast(value as type)"),
    ("select event_time, regexp_matches(k, 'x') x from a", (1, 20), "regexp_like("),
    ("select event_time, v from a where event_time > getdate()", (1, 48), "use event_time"),
    ("select event_time, x from a, unnest(l) as u(x)", (1, 30), "LATERAL VIEW explode("),
    ("select event_time, x from a, lateral flatten(l) as u(x)", (1, 38), "LATERAL VIEW explode("),
    ("select event_time, v from read_parquet('x')", (1, 27), "into a dataset first"),
    ("select event_time, k->'a' x from a", (1, 20), "get_json_object("),
    ("select event_time, v from a where k -> 'a' = 'x'", (1, 35), "get_json_object("),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "place", "hint"), FUNCTIONS)
def test_functions_of_other_engines_are_told_as_spark_has_them(
    engine_call: EngineCall, sql: str, place: tuple[int, int], hint: str
) -> None:
    first = validate(engine_call, sql).problems[0]
    assert (first.line, first.column) == place, first
    assert hint in (first.hint or ""), first
    assert "#" not in first.message


def test_functions_take_functions(engine_call: EngineCall) -> None:
    sql = "select event_time, aggregate(l, 0, (acc, x) -> acc + x, acc -> acc * 2) s, exists(l, x -> x > 1) e from a"
    assert validate(engine_call, sql).problems == ()
