"""ValidateQuery beyond the verdict: DDL inputs, operators, other SQL dialects.

It says what to write instead.
"""

from __future__ import annotations

import pytest

from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.model.engine import QueryProblem, ValidateResult
from odfabric.model.metadata import TemporalTable
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.execute.validate_query import FOREIGN_ENGINES
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.sql.dialects import DIALECTS, Untranslatable, translate
from tests.services.engine.sql.validating import judged

pytestmark = pytest.mark.spark


def test_columns_come_from_ddl_and_system_columns_need_no_mention(engine_call: EngineCall) -> None:
    found = judged(engine_call, "select op, event_time, k, price from a where op = 0 and system_time > t")
    assert found.problems == ()
    assert found.data_schema is not None
    columns = data_schema_to_arrow(found.data_schema)
    assert columns.names == ["offset", "op", "system_time", "event_time", "k", "price"]
    assert str(columns.field("price").type) == "decimal128(18, 2)"


def test_an_event_time_that_is_declared_stays_as_it_is(engine_call: EngineCall) -> None:
    found = judged(engine_call, "select event_time from a", ddl="event_time DATE NOT NULL")
    assert found.data_schema is not None
    column = data_schema_to_arrow(found.data_schema).field("event_time")
    assert (str(column.type), column.nullable) == ("date32[day]", False)


def test_a_temporal_table_is_one_that_the_query_can_read(engine_call: EngineCall) -> None:
    queries = "select event_time, k, v from a", "select event_time, k from b"
    for name in ("a", "my.trades", "s0"):
        assert judged(engine_call, *queries, temporal=(TemporalTable(name=name, primary_key=("k",)),)).problems == ()
    (problem,) = judged(engine_call, *queries, temporal=(TemporalTable(name="aa", primary_key=("k",)),)).problems
    assert (problem.rule, problem.message) == (
        "temporal-tables",
        "the temporal table aa is neither an input nor a step",
    )
    assert problem.hint == "name one of these in temporalTables: a, b, my.trades, s0"
    (problem,) = judged(engine_call, *queries, temporal=(TemporalTable(name="My.trades", primary_key=("k",)),)).problems
    assert problem.hint == "name it `my.trades`: upper and lower case are told apart"


def test_a_primary_key_is_a_column_of_its_table(engine_call: EngineCall) -> None:
    sql = "select a.event_time, r.v from a join lateral (select v from b where b.k = a.k and b.event_time <= a.event_time order by b.event_time desc limit 1) r"
    for key, hint in (("K", "write `k` as its primary key: upper and lower case"), ("nope", "join lateral (")):
        (problem,) = judged(engine_call, sql, temporal=(TemporalTable(name="b", primary_key=(key,)),)).problems
        assert f"has no column {key} for its primary key" in problem.message
        assert hint in (problem.hint or "")
    assert judged(engine_call, sql, temporal=(TemporalTable(name="b", primary_key=("k",)),)).problems == ()


@pytest.mark.parametrize("column", ["sort_array(collect_list(array()))", "max(array())"])
def test_lists_of_nothing_are_refused(engine_call: EngineCall, column: str) -> None:
    (problem,) = judged(engine_call, f"select max(t) event_time, k, {column} l from a group by k").problems
    assert problem.rule in ("kept-type", "column-type")
    assert problem.hint


def test_a_vocabulary_of_the_input_names_its_system_columns(engine_call: EngineCall) -> None:
    names = DatasetVocabulary(event_time="happened")
    assert judged(engine_call, "select happened as event_time, k from a", vocabulary=names).problems == ()
    assert judged(engine_call, "select event_time, k from a", vocabulary=names).problems != ()


def test_types_that_only_other_nodes_write_can_be_read(engine_call: EngineCall) -> None:
    ddl = "m MAP<STRING, VARCHAR(3)>, st STRUCT<a INT, b STRING>, items ARRAY<STRUCT<n INT, t VARCHAR(10)>>"
    sql = "select event_time, m['x'] x, st.a, items[0].t t, cardinality(m) n from a"
    found = judged(engine_call, sql, ddl=ddl)
    assert found.problems == ()
    assert found.data_schema is not None
    shown = data_schema_to_arrow(found.data_schema)
    assert [str(shown.field(name).type) for name in ("x", "a", "t", "n")] == ["string", "int32", "string", "int32"]
    (problem,) = judged(engine_call, "select event_time, m from a", ddl=ddl).problems
    assert "Map" in problem.message


BAD_DDL = [
    ("k VARIANT", "column k is of type VARIANT"),
    ("k INT, x ARRAY<TIMESTAMP_NTZ>", "column x is of type TIMESTAMP_NTZ"),
    ("k INTERVAL DAY", "column k is of type INTERVAL DAY"),
    ("k STRING COLLATE UTF8_LCASE", "column k is of type STRING COLLATE UTF8_LCASE"),
    ("k CHAR(3)", "column k is of type CHAR(3)"),
    ("k NOPE", '"NOPE"'),
    ("k INT,", "cannot be read"),
    ("k INT, K INT", "two columns are named K and k"),
    ("); drop table x", "cannot be read"),
    ("k INT" * 400_000, "too long"),
    (", ".join(f"c{n} INT" for n in range(2_001)), "2001 columns"),
]


def test_what_is_wrong_with_ddl_names_its_input(engine_call: EngineCall) -> None:
    (problem,) = judged(engine_call, "select event_time, k from a", ddl="k STRING,\n v WRONG").problems
    assert (problem.of_input, problem.line, problem.rule) == (0, 2, "input-schema")
    (problem,) = judged(engine_call, "select event_time, kk from a").problems
    assert problem.of_input is None


@pytest.mark.parametrize(("ddl", "said"), BAD_DDL, ids=[said[:20] for _, said in BAD_DDL])
def test_a_type_without_a_form_is_refused_by_its_name(engine_call: EngineCall, ddl: str, said: str) -> None:
    (problem,) = judged(engine_call, "select event_time, k from a", ddl=ddl).problems
    assert problem.rule == "input-schema"
    assert problem.message.startswith("input a: ")
    assert said in problem.message


def operators(result: ValidateResult) -> list[tuple[str, str, tuple[str, ...], int]]:
    assert result.problems == ()
    return [(one.operator_class, one.name, one.keys, one.step) for one in result.operators]


def test_operators_are_told_with_class_keys_and_step(engine_call: EngineCall) -> None:
    found = judged(
        engine_call,
        "select event_time, k, v + 1 as w from a where v > 3",
        "select window.start event_time, k, sum(w) w from s0 group by window(event_time, '1 day'), k having sum(w) > 3",
    )
    assert operators(found) == [
        ("linear", "project", (), 0),
        ("linear", "filter", (), 0),
        ("linear", "filter", (), 1),
        ("timed", "aggregate", ("window", "k"), 1),
    ]
    assert [one.detail for one in found.operators][1] == "v > 3"


def test_a_window_over_another_column_is_a_plain_key(engine_call: EngineCall) -> None:
    found = judged(engine_call, "select max(event_time) event_time, count(*) n from a group by window(t, '1 day')")
    assert operators(found) == [("keyed", "aggregate", ("window",), 0)]


def test_an_operator_is_told_once_however_often_its_step_is_read(engine_call: EngineCall) -> None:
    found = judged(
        engine_call,
        "select event_time, k from a where v = 1",
        "select * from s0 union all select * from s0",
    )
    assert [one.name for one in found.operators].count("filter") == 1
    assert ("linear", "union", (), 1) in operators(found)


STAGED = [
    ("select a.event_time, b.v from a join b on a.k = b.k and a.v < b.v", ("keyed", "join", ("a.k = b.k",), 0)),
    (
        "select event_time, k, row_number() over (partition by k order by v) r from a",
        ("keyed", "window function", ("k",), 0),
    ),
    ("select event_time, k from a where exists (select 1 from b where b.k = a.k)", ("keyed", "subquery", (), 0)),
    ("select event_time, k from a except select event_time, k from b", ("keyed", "except", (), 0)),
]


@pytest.mark.parametrize(("query", "operator"), STAGED)
def test_operators_that_keep_rows_by_key_are_told_with_their_keys(
    engine_call: EngineCall, query: str, operator: tuple[str, str, tuple[str, ...], int]
) -> None:
    assert operator in operators(judged(engine_call, query))


LATERALS = [
    ("select a.event_time, l.w from a, lateral (select v + 1 as w) l", "linear"),
    (
        "select a.event_time, l.v from a left join lateral (select v from b where b.k = a.k order by b.v limit 1) l on true",
        "keyed",
    ),
]


@pytest.mark.parametrize(("query", "operator_class"), LATERALS)
def test_a_lateral_is_of_the_class_of_what_it_does(engine_call: EngineCall, query: str, operator_class: str) -> None:
    found = judged(engine_call, query)
    assert found.operator_class == operator_class
    assert (operator_class, "lateral join", (), 0) in operators(found)


def test_a_refused_query_has_problems_and_no_operators(engine_call: EngineCall) -> None:
    found = judged(engine_call, "select event_time, rand() r from a")
    assert found.problems
    assert found.operators == ()


# Queries of the ecosystem's documentation and shapes of its examples; the first stands in the specification itself.
FOREIGN = [
    (
        "flink",
        "SELECT TUMBLE_ROWTIME(event_time, INTERVAL '1' MONTH) as event_time, k, min(price) as min_monthly_price, "
        "max(price) as max_monthly_price, avg(price) as avg_monthly_price "
        "FROM a GROUP BY TUMBLE(event_time, INTERVAL '1' MONTH), k",
        "GROUP BY DATE_TRUNC('MONTH', event_time), k",
    ),
    (
        "flink",
        "SELECT TUMBLE_START(event_time, INTERVAL '1' DAY) as event_time, k as symbol, min(price) as low "
        "FROM `my.trades` GROUP BY TUMBLE(event_time, INTERVAL '1' DAY), k",
        "SELECT window.start AS event_time, k AS symbol, MIN(price) AS low FROM `my.trades` "
        "GROUP BY WINDOW(event_time, '1 day'), k",
    ),
    (
        "flink",
        "SELECT window_end as event_time, sum(v) s FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(event_time), "
        "INTERVAL '10' MINUTES)) GROUP BY window_start, window_end",
        "SELECT window.end AS event_time, SUM(v) AS s FROM a GROUP BY WINDOW(event_time, '10 minute')",
    ),
    (
        "risingwave",
        "select window_start as event_time, sum(v) s from tumble(\"my.trades\", event_time, interval '1 hour') "
        "group by window_start",
        "SELECT window.start AS event_time, SUM(v) AS s FROM `my.trades` GROUP BY WINDOW(event_time, '1 hour')",
    ),
    (
        "flink",
        "SELECT TUMBLE_START(`event_time`, INTERVAL '1' DAY) as event_time, a.`k`, count(*) n FROM a "
        "GROUP BY TUMBLE(`event_time`, INTERVAL '1' DAY), a.`k`",
        "GROUP BY WINDOW(`event_time`, '1 day'), a.`k`",
    ),
    (
        "flink",
        "SELECT window_end as event_time, sum(v) s FROM TABLE(TUMBLE(TABLE a, DESCRIPTOR(`event_time`), "
        "INTERVAL '10' MINUTES)) GROUP BY window_start, window_end",
        "FROM a GROUP BY WINDOW(`event_time`, '10 minute')",
    ),
    (
        "risingwave",
        "select window_start as event_time, sum(v) s from tumble(a, \"event_time\", interval '1 hour') group by window_start",
        "FROM a GROUP BY WINDOW(`event_time`, '1 hour')",
    ),
    (
        "risingwave",
        "select event_time, cast(price as int) p, substr(k, 2, 3) s, greatest(v, 1) g from a",
        "CAST(price AS INT) AS p, SUBSTRING(k, 2, 3) AS s, GREATEST(v, 1) AS g",
    ),
    (
        "datafusion",
        "select event_time, op, k as city, v * 10 as population_x10 from \"my.trades\" where k like 'A%'",
        "SELECT event_time, op, k AS city, v * 10 AS population_x10 FROM `my.trades` WHERE k LIKE 'A%'",
    ),
]


@pytest.mark.parametrize(("engine", "query", "offered"), FOREIGN)
def test_a_query_of_another_engine_is_refused_with_one_that_is_accepted(
    engine_call: EngineCall, engine: str, query: str, offered: str
) -> None:
    (problem,) = judged(engine_call, query, engine=engine).problems
    assert problem.rule == "engine"
    assert engine in problem.message
    assert problem.suggestion is not None
    assert offered in " ".join(problem.suggestion.split())
    assert " ".join(problem.suggestion.split()) in (problem.hint or "")
    assert judged(engine_call, problem.suggestion).problems == ()


WINDOWS = [
    ("select TUMBLE_START(event_time, INTERVAL '1' DAY) as event_time, k, sum(v) s from a group by TUMBLE(event_time, INTERVAL '1' DAY), k",
     "GROUP BY WINDOW(event_time, '1 day'), k", ""),
    ("select window_end as event_time, avg(v) s from TABLE(HOP(TABLE a, DESCRIPTOR(event_time), INTERVAL '5' MINUTES, INTERVAL '1' HOUR))"
     " group by window_start, window_end", "GROUP BY WINDOW(event_time, '1 hour', '5 minute')", "note that avg of integers"),
]  # fmt: skip


@pytest.mark.parametrize(("query", "offered", "note"), WINDOWS)
def test_windows_of_flink_are_offered_as_spark_has_them(
    engine_call: EngineCall, query: str, offered: str, note: str
) -> None:
    first, *others = judged(engine_call, query).problems
    assert first.rule in ("function-unknown", "parse-syntax-error")
    assert offered in " ".join((first.suggestion or "").split())
    assert note in (first.hint or "")
    assert [each.suggestion for each in others] == [None] * len(others)
    assert judged(engine_call, first.suggestion or "").problems == ()


def test_windows_of_flink_among_what_is_not_known_to_mean_the_same_are_not_offered(engine_call: EngineCall) -> None:
    for query in (
        "select TUMBLE_START(event_time, INTERVAL '1' DAY) as event_time, max(v / 2) m from a group by TUMBLE(event_time, INTERVAL '1' DAY)",
        "select TUMBLE_START(event_time, INTERVAL '1' DAY) as event_time, max(nope) m from a group by TUMBLE(event_time, INTERVAL '1' DAY)",
    ):
        assert {problem.suggestion for problem in judged(engine_call, query).problems} == {None}


LOOK_UP = "select a.event_time, a.k, r.`price` from a {side} join `my.trades` for system_time as of a.event_time as r on a.k = r.k"


@pytest.mark.parametrize("side", ["", "left"])
def test_a_look_up_in_a_table_of_versions_is_translated(engine_call: EngineCall, side: str) -> None:
    versions = (TemporalTable(name="my.trades", primary_key=("k",)),)
    (problem,) = judged(engine_call, LOOK_UP.format(side=side), engine="flink", temporal=versions).problems
    assert problem.suggestion is not None
    assert f"{side.upper()} JOIN LATERAL ( SELECT * FROM `my.trades` AS `r`".strip() in " ".join(
        problem.suggestion.split()
    )
    assert "`temporalTables`" in (problem.hint or "")
    found = judged(engine_call, problem.suggestion, temporal=versions)
    assert found.problems == ()
    assert ("timed", "lateral join", (), 0) in operators(found)


def test_a_look_up_by_other_columns_than_the_primary_key_is_not_offered(engine_call: EngineCall) -> None:
    versions = (TemporalTable(name="my.trades", primary_key=("k", "v")),)
    (problem,) = judged(engine_call, LOOK_UP.format(side=""), engine="flink", temporal=versions).problems
    assert problem.suggestion is None


def test_every_step_gets_its_own_translation(engine_call: EngineCall) -> None:
    found = judged(
        engine_call, 'select event_time, "k" from a', "select event_time, k::string k from s0", engine="datafusion"
    )
    assert [(one.step, bool(one.suggestion)) for one in found.problems] == [(0, True), (1, True)]


NOTED = [
    ("flink", "select event_time, cast(price as varchar) x from a", "other texts in Spark"),
    ("flink", "select event_time, cast(v > 1 as varchar) x from a", "true rather than TRUE"),
    ("flink", "select event_time, cast(v as varchar) x from (select event_time, price v from a) s", "other texts"),
    ("risingwave", "select event_time, price || k x from a", "other texts in Spark"),
    ("datafusion", "select event_time, coalesce(k, 'x') || cast(t as varchar) x from a", "other texts in Spark"),
    ("risingwave", "select event_time, cast(5e1 as varchar) x from a", "other texts in Spark"),
    ("flink", "select event_time, cast(cast(v as double) as varchar) x from a", "other texts in Spark"),
    ("risingwave", "select event_time, cast(event_time as varchar) x from a", "other texts in Spark"),
    (
        "risingwave",
        "select max(event_time) event_time, k, avg(v) x from a group by k",
        "avg of integers gives a floating",
    ),
    ("datafusion", "select event_time, v * 1.1 x from a", "1.1 is written 1.1D"),
    ("datafusion", "select event_time, floor(v) x from a", "floor and ceil give whole numbers"),
]


@pytest.mark.parametrize(("engine", "query", "note"), NOTED)
def test_where_a_translation_differs_is_noted(engine_call: EngineCall, engine: str, query: str, note: str) -> None:
    (problem,) = judged(engine_call, query, engine=engine).problems
    assert problem.suggestion
    assert note in (problem.hint or "")
    plain = judged(engine_call, "select event_time, cast('1' as varchar(5)) x, 1 y from a", engine=engine).problems[0]
    assert plain.suggestion
    assert note not in (plain.hint or "")


SAME_TEXTS = "cast(v as varchar) x, cast(upper(k) as varchar) y, cast(-1 as varchar) z, cast(null as varchar) n"


@pytest.mark.parametrize("engine", ["flink", "risingwave", "datafusion"])
def test_texts_that_are_the_same_everywhere_need_no_note(engine_call: EngineCall, engine: str) -> None:
    query = f"select event_time, {SAME_TEXTS}, coalesce(k, 'x') || '-' || cast(v as varchar) w from a"
    (problem,) = judged(engine_call, query, engine=engine).problems
    assert problem.suggestion
    assert "note that" not in (problem.hint or "")


def test_a_member_that_is_called_like_a_column_is_noted(engine_call: EngineCall) -> None:
    ddl = "k STRING, s STRUCT<k: DOUBLE>"
    (problem,) = judged(
        engine_call, "select event_time, cast(s.k as varchar) x from a", engine="flink", ddl=ddl
    ).problems
    assert "other texts in Spark" in (problem.hint or "")


UNSOUND = [
    ("flink", "select max(event_time) event_time, k from a group by session(event_time, interval '30' minute), k", "session_window"),
    ("datafusion", "select event_time, v / 2 h from a", "division"),
    ("datafusion", "select event_time, concat(k, k) c from a", "concat of NULL"),
    ("datafusion", "select event_time, now() n from a", "not known to mean the same"),
    ("datafusion", "select event_time, substr(k, -2) c from a", "counts from the end"),
    ("risingwave", "select event_time, substr(k, v) c from a", "a number above 0"),
    ("flink", "select event_time, greatest(v, 1) g from a", "NULL in Flink"),
    ("risingwave", "select event_time, extract(dow from event_time) d from a", "EXTRACT(DOW"),
    ("flink", "select TUMBLE_END(event_time, INTERVAL '2' MONTH) event_time from a group by TUMBLE(event_time, INTERVAL '2' MONTH)", "no windows of 2 month"),
    ("flink", "select * from TABLE(TUMBLE(TABLE a, DESCRIPTOR(event_time), INTERVAL '1' HOUR))", "groups by window_start"),
    ("flink", "select a.event_time, r.v from a join `my.trades` for system_time as of a.event_time as r on a.k = r.k and r.v > 1", "JOIN LATERAL"),
    ("flink", "select a.event_time, r.v from a right join b for system_time as of a.event_time as r on a.k = r.k", "JOIN LATERAL"),
    ("datafusion", "insert into a values (1)", "one query"),
    ("datafusion", "select 1; select 2", "one query"),
    ("datafusion", "select event_time from a where ((v", "cannot be read"),
    ("datafusion", "select " + "(" * 2_000 + "1" + ")" * 2_000, "nested too deeply"),
    ("flink", "select '" + "x" * 70_000 + "' x, event_time from a", "bytes are translated"),
]  # fmt: skip


@pytest.mark.parametrize(("engine", "query", "said"), UNSOUND, ids=[said for _, _, said in UNSOUND])
def test_what_has_no_sound_translation_is_named_and_nothing_is_offered(
    engine_call: EngineCall, engine: str, query: str, said: str
) -> None:
    (problem,) = judged(engine_call, query, engine=engine).problems
    assert problem.suggestion is None
    assert said in (problem.hint or "")


def test_a_translation_that_would_be_refused_is_not_offered(engine_call: EngineCall) -> None:
    (problem,) = judged(engine_call, "select event_time, nope from a", engine="datafusion").problems
    assert problem.suggestion is None
    assert "unknown column `nope`" in (problem.hint or "")


def test_an_engine_that_nobody_knows_is_refused_without_a_guess(engine_call: EngineCall) -> None:
    (problem,) = judged(engine_call, "select event_time from a", engine="polars").problems
    assert isinstance(problem, QueryProblem)
    assert (problem.rule, problem.suggestion) == ("engine", None)


def test_the_table_of_dialects_is_that_of_the_engines() -> None:
    assert set(DIALECTS) == FOREIGN_ENGINES
    with pytest.raises(Untranslatable):
        translate("", "flink")
