"""ValidateQuery reports what a query will keep, and advice before it runs."""

from __future__ import annotations

import pytest

from odfabric.model.engine import KeptBy
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.sql.validating import validate

pytestmark = pytest.mark.spark

STATES = [
    ("select event_time, k, v from a where v > 1", []),
    ("select max(event_time) event_time, k, sum(v) s from a group by k", [(KeptBy.GROUPS, ("a.k",), ("a",))]),
    ("select max(event_time) event_time, sum(v) s from a", [(KeptBy.GROUPS, (), ("a",))]),
    ("select a.event_time, b.v from a join a b on a.k = b.k", [(KeptBy.ROWS, ("k",), ("a",))]),
    ("select event_time, sum(v) over () s from a", [(KeptBy.ROWS, (), ("a",))]),
    (
        "select max(event_time) event_time, k, max(c) m from (select *, count(*) over (partition by k) c from a) group by k",
        [(KeptBy.ROWS, ("k",), ("a",)), (KeptBy.GROUPS, ("k",), ("an earlier part of the query",))],
    ),
]


@pytest.mark.parametrize(("sql", "states"), STATES)
def test_what_is_kept_is_told(
    engine_call: EngineCall, sql: str, states: list[tuple[KeptBy, tuple[str, ...], tuple[str, ...]]]
) -> None:
    found = validate(engine_call, sql)
    assert found.problems == ()
    assert [(each.kept, each.keys, each.relations) for each in found.states] == states


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select event_time, sum(v) over () s from a", ["all rows of a have one key"]),
        ("select event_time, ntile(4) over (order by v) n from a", ["all rows of a have one key"]),
        ("select event_time, sum(v) over (partition by k) s from a", []),
        ("select max(event_time) event_time, sum(v) s from a", []),
        ("select a.event_time, b.k from a cross join b", ["rows of a meet all that is made of b, for no equality"]),
        (
            "select event_time, k from a where v > (select avg(v) from a)",
            ["rows of a meet all that is made of a, for no equality"],
        ),
        (
            "select event_time, k from a where v > (select avg(v) from b) and exists (select 1 from b where b.k = a.k)",
            ["rows of a and b meet all that is made of b, for no equality"],
        ),
        ("select a.event_time, x from a cross join (values (1), (2)) c(x)", []),
        ("select event_time, (select count(*) from b where b.k = a.k) n from a", []),
        ("select event_time, k from a", []),
    ],
)
def test_what_a_user_should_know_is_told(engine_call: EngineCall, sql: str, words: list[str]) -> None:
    found = validate(engine_call, sql)
    assert found.problems == ()
    assert len(found.notes) == len(words)
    assert all(word in note for word, note in zip(words, found.notes, strict=True)), found.notes
