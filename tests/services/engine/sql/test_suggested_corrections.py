"""All problems of a transform come at once, with a sound correction if any.

Where it can be corrected soundly, the corrected one is suggested.
"""

from __future__ import annotations

import pytest

from odfabric.errors import InvalidQuery, Place
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.sql.corrections.collect_errors import all_problems
from odfabric_engine_spark.sql.corrections.suggested_corrections import CorrectedText
from odfabric_engine_spark.sql.refusal import Refused
from tests.services.engine.sql.validating import judged

pytestmark = pytest.mark.spark

CORRECTED = [
    ("select EVENT_TIME, V from A", [8, 20, 27], "select event_time, v from a"),
    (
        "select Event_Time, K, sum(V) as s from a group by Event_Time, K;",
        [8, 20, 27, 51, 63],
        "select event_time, k, sum(v) as s from a group by event_time, k",
    ),
    (
        "select T.Event_time as event_time, t.K from a T join B U on T.k = u.`K`",
        [8, 36, 54, 67],
        "select T.event_time as event_time, T.k from a T join b U on T.k = U.`k`",
    ),
    ("select event_time, 'K' as K, k = 'K' as x from a where K > 'K'", [56], "select event_time, 'K' as K, k = 'K' as x from a where k > 'K'"),
    ("with X as (select * from a) select event_time from x", [52], "with X as (select * from a) select event_time from X"),
    ("select a.event_time, a.v from a join b using (K)", [47], "select a.event_time, a.v from a join b using (k)"),
    ("select * except (K, v) from a", [8], "select * except (k, v) from a"),
    ("select event_time, s.N x from (select *, named_struct('n', v) s from a)", [20],
     "select event_time, s.n x from (select *, named_struct('n', v) s from a)"),
    ("select event_time, v from a where K in (select K from b where b.V = a.V)", [35, 48, 63, 69],
     "select event_time, v from a where k in (select k from b where b.v = a.v)"),
    ("select event_time, v from a order by v -- newest", [29], "select event_time, v from a"),
    ("select event_time, v from a order by V limit 10", [29, 38], "select * from (select event_time, v from a order by v limit 10)"),
    ("(select event_time, v from a order by v limit 3)", [30], "select * from ((select event_time, v from a order by v limit 3))"),
    ("select event_time, v from a order by v limit 10 -- ten", [29],
     "select * from (\nselect event_time, v from a order by v limit 10 -- ten\n)"),
    ("select event_time, v from my.trades where trades.v > 1 and My.Trades.V < 9", [27, 43, 60],
     "select event_time, v from `my.trades` where `my.trades`.v > 1 and `my.trades`.`v` < 9"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "columns", "suggestion"), CORRECTED)
def test_a_query_that_is_meant_is_suggested_with_all_that_is_wrong(
    engine_call: EngineCall, sql: str, columns: list[int], suggestion: str
) -> None:
    problems = judged(engine_call, sql).problems
    assert [problem.column for problem in problems] == columns, problems
    assert [problem.suggestion for problem in problems] == [suggestion, *[None] * (len(columns) - 1)]
    assert judged(engine_call, suggestion).problems == ()


AT_ONCE = [
    ("select k, v from a order by v limit 10", [("event-time", 1), ("limit", 20)]),
    ("select k, v from a order by v", [("event-time", 1), ("order-by", 20)]),
    ("select k, V from a limit 10", [("event-time", 1), ("unresolved-column", 11), ("limit", 20)]),
    (
        "with q as (select * from a) select k, V from Q order by k limit 3;",
        [("event-time", 1), ("unresolved-column", 39), ("relation", 46), ("limit", 48)],
    ),
    ("select event_time, K, nope from A", [("unresolved-column", 20), ("unresolved-column", 23), ("relation", 33)]),
    ("select event_time, v from a limit 10", [("limit", 29)]),
    (
        "select event_time, v from (select event_time, v from a limit 3) order by v",
        [("limit", 56), ("order-by", 65)],
    ),
    ("select event_time, v * 2 as Total from a where total > 1", [("unresolved-column", 48)]),
    ("select event_time, v from a |> order by v |> limit 3", [("order-by", 32), ("limit", 46)]),
    ("select event_time, (select V from b) x from a where rand() > 1", [("function-random", 53)]),
]


@pytest.mark.parametrize(("sql", "problems"), AT_ONCE)
def test_all_that_is_known_is_told_at_once(engine_call: EngineCall, sql: str, problems: list[tuple[str, int]]) -> None:
    found = judged(engine_call, sql).problems
    assert [(problem.rule, problem.column) for problem in found] == problems, found
    assert {problem.suggestion for problem in found} == {None}


def test_places_are_those_of_the_query_as_it_was_written(engine_call: EngineCall) -> None:
    sql = "select\n event_time, trades.V, nope\nfrom my.trades\norder by\n Trades.K limit 3"
    found = judged(engine_call, sql).problems
    assert [(problem.line, problem.column) for problem in found] == [(2, 14), (2, 24), (3, 6), (4, 1), (5, 2)], found


def test_every_statement_gets_its_own_suggestion(engine_call: EngineCall) -> None:
    found = judged(engine_call, "select event_time, K from A", "select event_time, K from S0 order by event_time")
    assert [(problem.step, problem.column) for problem in found.problems] == [
        (0, 20),
        (0, 27),
        (1, 20),
        (1, 27),
        (1, 30),
    ]
    suggested = [problem.suggestion for problem in found.problems if problem.suggestion]
    assert suggested == ["select event_time, k from a", "select event_time, k from s0"]


def test_a_name_in_several_places_is_corrected_only_where_it_is_refused() -> None:
    refused = InvalidQuery("unknown", place=Place(line=2, column=6))
    refused.instead = (("K",), ("k",))
    text = CorrectedText("select K,\n x + K from a")
    assert text.correct_name(refused)
    assert text.text == "select K,\n x + k from a"
    unplaced = InvalidQuery("unknown")
    unplaced.instead = (("K",), ("k",))
    twice = CorrectedText("select K, K from a")
    assert not twice.correct_name(unplaced)
    assert (twice.is_changed, twice.text) == (False, "select K, K from a")
    assert not twice.correct_name(InvalidQuery("unknown", place=Place(line=1, column=8)))


def test_many_names_are_told_up_to_a_limit(engine_call: EngineCall) -> None:
    few = judged(engine_call, f"select event_time, {', '.join(f'K as k{n}' for n in range(30))} from a").problems
    assert (len(few), few[0].suggestion is not None) == (30, True)
    many = judged(engine_call, f"select event_time, {', '.join(f'K as k{n}' for n in range(60))} from a").problems
    assert 1 < len(many) <= 60
    assert many[0].suggestion is None


def test_more_names_than_can_be_looked_for_are_told_as_they_are() -> None:
    """To look for each of them through the whole statement would take minutes."""
    sql = "select " + ", ".join(["K"] * 2_000) + " from a"
    problems = [InvalidQuery("unknown column K", place=Place(line=1, column=8 + 3 * n)) for n in range(2_000)]
    for problem in problems:
        problem.instead = (("K",), ("k",))
    judged_again: list[object] = []
    told = all_problems([sql], Refused(problems), judged_again.append)
    assert len(told) == len(problems)
    assert not judged_again


@pytest.mark.parametrize(
    ("sql", "unknown"),
    [
        ("select event_time, nope, never from a", ["nope", "never"]),
        ("select event_time, nope, sum(never) s from a group by event_time, nope", ["nope", "never"]),
        ("select nope from (select event_time, nope, x from a q where q.never = 1)", ["nope", "x", "q.never"]),
        # What comes of a gap is not reported: nothing cannot be taken apart.
        ("select event_time, explode(nope) as e, never from a", ["nope"]),
    ],
)
def test_names_that_nobody_knows_are_told_together(sql: str, unknown: list[str], engine_call: EngineCall) -> None:
    found = judged(engine_call, sql).problems
    assert sorted(problem.message for problem in found) == sorted(
        f"unknown column `{name.replace('.', '`.`')}`" for name in unknown
    )
    assert not any(problem.suggestion for problem in found)
