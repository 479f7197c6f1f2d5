"""Row-wise queries ignore a retraction's own columns unless they read `op`."""

from __future__ import annotations

import pytest

from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.sql.validating import validate

pytestmark = pytest.mark.spark

REFUSED = [
    ("select event_time, k, `offset` as o from a", [("offset", 1, 23)]),
    ("select event_time, k, op as kind from a", [("op", 1, 23)]),
    ("select event_time, k from a where op = 0", [("op", 1, 35)]),
    ("select event_time, k from a where op = 0 and k = 'x' or op = 3", [("op", 1, 35)]),
    ("select event_time, e from a lateral view explode(sequence(0, op)) as e", [("op", 1, 62)]),
    ("select event_time, k from (select event_time, k, system_time < t as early from a) where early", [("system_time", 1, 50)]),
    ("select event_time, k from a union all select event_time, k from b where system_time > t", [("system_time", 1, 73)]),
    ("select event_time, k, system_time s,\n `offset` + 1 o from a", [("system_time", 1, 23), ("offset", 2, 2)]),
    ("with q as (select *, `offset` o from a) select event_time, k from q where o > 3", [("offset", 1, 22)]),
]  # fmt: skip
ACCEPTED = [
    "select op, event_time, k, `offset` as o, system_time as came from a",
    "select op, event_time, k from a where op = 0 and system_time > t",
    "select 0 as op, event_time, k from a where op in (0, 3)",
    "select event_time, k from (select *, `offset` as o, system_time as came from a)",
    "select event_time, k from (select event_time, k, op as kind from a) where k = 'x'",
    "with q as (select *, `offset` o from a) select event_time, k from q union all select event_time, k from b",
]


@pytest.mark.parametrize(("sql", "columns"), REFUSED)
def test_what_a_retraction_has_of_its_own_is_refused_where_it_is_read(
    engine_call: EngineCall, sql: str, columns: list[tuple[str, int, int]]
) -> None:
    problems = validate(engine_call, sql).problems
    assert [(each.rule, each.line, each.column) for each in problems] == [
        ("system-column", line, column) for _, line, column in columns
    ]
    for problem, (name, *_) in zip(problems, columns, strict=True):
        assert problem.message.startswith(f"`{name}` is that of each record")
        assert "select `op` too" in (problem.hint or "")


@pytest.mark.parametrize("sql", ACCEPTED)
def test_records_are_passed_on_as_they_are_and_what_nobody_reads_is_free(engine_call: EngineCall, sql: str) -> None:
    assert validate(engine_call, sql).problems == ()
