"""Hints for SQL of other engines or habits: what to write in Spark SQL."""

from __future__ import annotations

import pytest

from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.sql.corrections.syntax_hints import other_statement, syntax_hint
from odfabric_engine_spark.sql.corrections.unknown_names import unknown_table
from tests.services.engine.sql.validating import validate

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


FORMS = [
    ("select top 10 event_time, v from a", (1, 12), "limit 10"),
    ('select event_time,\n v as "30 days" from a', (2, 7), "backticks, `30 days`"),
    ('select event_time, v "x y" from a', (1, 20), "backticks, `x y`"),
    ('select event_time, v from "a"', (1, 27), "backticks, `a`"),
    ("select event_time, v from [a]", (1, 27), "backticks: `a`"),
    ("select event_time, v from acme/orders", (1, 31), "`acme/orders`"),
    ("select event_time, v from acme-orders", (1, 31), "in backticks"),
    ("select event_time, v from a where v > all (select v from b)", (1, 43), "> (SELECT max(..) FROM ..)"),
    ("select event_time, v from a where v > all (select v from b)", (1, 43), "WHERE (.. comparison ..) IS NOT TRUE"),
    ("select event_time, v from a where v <= all (select v from b)", (1, 44), "<= (SELECT min(..) FROM ..)"),
    ("select event_time, v from a where v > any (select v from b)", (1, 43), "> (SELECT min(..) FROM ..)"),
    ("select event_time, v from a where v < some (select v from b)", (1, 44), "< (SELECT max(..) FROM ..)"),
    ("select event_time, v from a where v = any (select v from b)", (1, 43), "write IN (SELECT ..)"),
    ("select event_time, v from a where v <> all (select v from b)", (1, 44), "write NOT IN (SELECT ..)"),
    ("select event_time, v from a where v = all (select v from b)", (1, 43), "compare with both"),
    ("select window_start from table(tumble(table a, descriptor(event_time), interval '1' hour))", (1, 38), "group by window("),
    ("select window_start from hop(table a, descriptor(event_time), interval '1' hour)", (1, 36), "first the size"),
    ("select event_time, v from a fetch first 10 rows only", (1, 35), "select * from (select .. order by .. limit 10)"),
    ("select event_time, v from a limit 10, 5", (1, 37), "LIMIT takes one number"),
    ("select event_time, string_agg(k, ',' order by k) from a group by 1", (1, 38), "WITHIN GROUP (ORDER BY ..)"),
    ("select event_time, array_agg(k order by k) from a group by 1", (1, 32), "sort_array(collect_list(..))"),
    ("select event_time, last_value(v ignore nulls) over (order by v) x from a", (1, 33), "last_value(..) IGNORE NULLS"),
    ("select event_time, cast(v as double precision) x from a", (1, 37), "called double"),
    ("select event_time, v::double precision x from a", (1, 40), "called double"),
    ("select event_time, cast(v as timestamp with time zone) x from a", (1, 40), "called timestamp"),
    ("select event_time, k->>'a' x from a", (1, 23), "get_json_object("),
    ("select event_time, v from a where k similar to 'a%'", (1, 37), "RLIKE"),
    ("select event_time, v from a where k ~ 'x'", (1, 37), "RLIKE"),
    ("select event_time, v from a where v > 1 && k = 'x'", (1, 42), "write AND"),
    ("select event_time, v from a where v => 1", (1, 37), "write >="),
    ("select event_time, v from a where v between 1, 2", (1, 46), "BETWEEN least AND greatest"),
    ("select event_time, v from a where event_time > {{ start }}", (1, 48), "write the value itself"),
    ("select event_time, v // 2 x from a", (1, 23), "a div b"),
    ("select event_time, v from a # of all", (1, 29), "begins with --"),
    ("select * exclude (k) from a", (1, 18), "* EXCEPT (..)"),
    ("select event_time, sum(v) over (order by event_time rows 5) s from a", (1, 59), "between 5 preceding and current row"),
    ("select event_time, v from a as of timestamp '2020-01-01'", (1, 35), "join lateral ("),
    ("select event_time, v from a emit changes", (1, 34), "when the watermark says"),
    ("select event_time, v from a where k = 'it's'", (1, 43), "'it''s'"),
    ("select event_time, 'abc x from a", (1, 20), "close it by '"),
    ("select event_time, case when v > 1 then 'x' x from a", (1, 30), "CASE needs an END"),
    ("select event_time, case v > 1 then 'x' end x from a", (1, 31), "write WHEN"),
    ("select event_time, if v > 1 then 2 end x from a", (1, 25), "if(condition, then, else)"),
    ("select event_time, v from (select event_time, v from a", (1, 55), "line 1, column 27"),
    ("select event_time, (v + 1 x\nfrom a", (2, 1), "close the bracket of line 1, column 20"),
    ("select event_time, v from a)", (1, 28), "leave this bracket out"),
    ("select event_time, v from a where v > 1 or", (1, 41), "belongs behind OR"),
    ("select event_time, v from a where and v > 1", (1, 39), "leave AND out"),
    ("select event_time, v from a, where v > 1", (1, 38), "leave out the comma before WHERE"),
    ("select event_time, v from a where v is not nul", (1, 44), "did you mean NULL"),
    ("selec event_time, v from a", (1, 1), "did you mean SELECT"),
    ("select event_time, v form a", (1, 27), "did you mean FROM"),
    ("select event_time, v from a wehre v > 1", (1, 35), "did you mean WHERE"),
    ("select event_time, v from a group event_time, v", (1, 35), "write BY behind GROUP"),
    ("select event_time, v from a left join b a.k = b.k", (1, 42), "write ON"),
    ("select a.event_time from a inner b on a.k = b.k", (1, 34), "write JOIN behind INNER"),
    ("select event_time, v from a group by 1, 2 where v > 1", (1, 43), "in this order"),
    ("select event_time v k from a", (1, 21), "a comma between the two"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "place", "hint"), FORMS)
def test_forms_of_other_engines_and_slips_are_told_as_spark_has_them(
    engine_call: EngineCall, sql: str, place: tuple[int, int], hint: str
) -> None:
    (problem,) = validate(engine_call, sql, inputs=("a", "b", "acme/orders")).problems
    assert (problem.line, problem.column) == place, problem
    assert hint in (problem.hint or ""), problem


STATEMENTS = [
    ("create or replace temp view x as select event_time, v from a", (1, 1), "CREATE", "the SELECT alone"),
    ("with q as (select * from a),\n r as (select * from q)\ninsert into b select * from r", (3, 1), "INSERT", "the SELECT alone"),
    ("insert overwrite b select * from a", (1, 1), "INSERT", "the SELECT alone"),
    ("merge into a using b on a.k = b.k when matched then delete", (1, 1), "MERGE", "changes no rows"),
    ("update a set v = 1", (1, 1), "UPDATE", "changes no rows"),
    ("drop table a", (1, 1), "DROP", "leave it out"),
    ("-- what is it?\nexplain select * from a", (2, 1), "EXPLAIN", "odf engine validate"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "place", "word", "hint"), STATEMENTS)
def test_a_statement_that_is_no_query_is_called_so(
    engine_call: EngineCall, sql: str, place: tuple[int, int], word: str, hint: str
) -> None:
    (problem,) = validate(engine_call, sql).problems
    assert (problem.rule, problem.message) == ("statement", f"{word} is no query")
    assert (problem.line, problem.column) == place
    assert hint in (problem.hint or "")


MEANT = [
    ("select event_time, date_diff('day', event_time, t) x from a", (1, 20), "date_diff(DAY, earlier, later)"),
    ("select event_time, extract(epoch from event_time) x from a", (1, 20), "unix_seconds(time)"),
    ("select event_time, k::varchar x from a", (1, 23), "write string"),
    ("select event_time, cast(k as text) x from a", (1, 30), "write string"),
    ("select event_time, cast(k as datetime) x from a", (1, 30), "write timestamp"),
    ("select event_time, cast(k as bool) x from a", (1, 30), "write boolean"),
    ("select event_time, cast(k as nothing) x from a", (1, 30), "a type of Spark SQL"),
    ("select event_time, cast(k as array) x from a", (1, 30), "array<int>"),
    ("select event_time, isnull(k, 'x') x from a", (1, 20), "coalesce(value, otherwise)"),
    ("select event_time, max(v, d) x from a", (1, 20), "greatest(a, b)"),
    ("select event_time, percentile_cont(v, 0.5) x from a group by 1", (1, 20), "WITHIN GROUP (ORDER BY value)"),
    ("select event_time, count() x from a group by event_time", (1, 20), "count(*)"),
    ("select event_time, count(distinct k, distinct v) x from a group by 1", (1, 47), "DISTINCT once: count(DISTINCT a, b)"),
    ("select event_time, x from a, explode(l) as u(x)", (1, 38), "from a, lateral explode(list)"),
    ("select window.start event_time from a group by window(event_time, interval 1 day)", (1, 48), "window(event_time, '1 hour')"),
    ("select window_start event_time from a group by window(event_time, '1 day')", (1, 8), "write window.start"),
    ("select event_time, v from a where v > 1 || k = 'x'", (1, 35), "write OR"),
    ('select "event_time", v from a', (1, 1), "stands in backticks"),
    ("select event_time, sum(v) over (order by event_time range between '1 hour' preceding and current row) x from a",
     (1, 32), "interval '1' hour preceding"),
    ("select event_time, event_time + '1 day' x from a", (1, 20), "t + INTERVAL '1' DAY"),
    ("select event_time, event_time - 1 x from a", (1, 20), "t + INTERVAL '1' DAY"),
    ("select event_time, v from a where event_time > 2024-01-01", (1, 35), "TIMESTAMP '2024-01-31 12:00:00'"),
    ("select event_time, v from a where v and k = 'x'", (1, 35), "n <> 0"),
    ("select event_time, k from a where k", (1, 35), "write a condition"),
    ("select event_time, v from a where k is 'x'", (1, 37), "compare with = or <>"),
    ("select event_time, l.x y from a", (1, 20), "transform(list, x -> x.member)"),
    ("select event_time, v from a with (nolock)", (1, 27), "a table takes no options"),
    ("select event_time, k, sum(v) from a group by 1, 2 having count > 1", (1, 58), "write count(*)"),
    ("select event_time, x from (values (make_date(2024, 13, 1))) q(x), a", (1, 36), "another constant"),
    ("select event_time, v + 1, v + 1 from a", (1, 1), "name one with AS"),
    ("select a.*, b.* from a join b on a.k = b.k", (1, 1), "t.* EXCEPT (event_time, k, v, d, t, l)"),
    ("select event_time, v * 2 as Total, total + 1 as u from a", (1, 1), "in another way"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "place", "hint"), MEANT)
def test_usual_mistakes_are_told_with_what_is_meant(
    engine_call: EngineCall, sql: str, place: tuple[int, int], hint: str
) -> None:
    (problem,) = validate(engine_call, sql).problems
    assert (problem.line, problem.column) == place, problem
    assert hint in (problem.hint or ""), problem
    assert "Please" not in problem.message


CASE = "upper and lower case are told apart"
INPUTS = ("a", "b", "my.trades", "tpcds.store_sales", "acme/orders")
NAMES = [
    ("select T.event_time, T.k from a T join b U on T.k = u.k", (1, 53), f"write `U`.`k`: {CASE}"),
    ("select event_time, k from a where exists (select 1 from b B where B.k = A.k)", (1, 73), f"write `a`.`k`: {CASE}"),
    ("select event_time, v * 2 as Total from a where total > 1", (1, 48), "SELECT calls it `Total`"),
    ("select a.event_time, a.v from a join b\nusing (K)", (2, 8), f"write `k`: {CASE}"),
    ("select A.*, b.v as w from a join b on a.k = b.k", (1, 8), "write `a`.*"),
    ("select event_time, P.x y from (select event_time, named_struct('x', v) p from a)", (1, 20), f"write `p`.`x`: {CASE}"),
    ("select event_time, q.P.x y from (select event_time, named_struct('x', v) p from a) q",
     (1, 20), f"write `q`.`p`.`x`: {CASE}"),
    ("with X as (select * from a) select event_time from x", (1, 52), f"write `X`: {CASE}"),
    ("select event_time, V x from (select event_time, v, v as w from a) join (select v from b)",
     (1, 20), f"write `v`: {CASE}"),
    ("select a.event_time, b.v from a join b on a.k = c.k", (1, 49), "no table here is called `c`: did you mean `a`.`k`"),
    ("select event_time, date_trunc(hour, event_time) x from a", (1, 31), "date_trunc('HOUR', ..)"),
    ("select event_time, sum(v) over W s from a window w as (partition by k)", (1, 1), "WINDOW w AS ("),
    ("select event_time, v from tpcds.store_sales", (1, 27), "by their alias, in backticks if it has dots: write `tpcds.store_sales`"),
    ("select event_time, v from TPCDS.Store_Sales", (1, 27), "write `tpcds.store_sales`"),
    ("select event_time, v from acme.orders", (1, 27), "write `acme/orders`"),
    ("select event_time, v from x.a", (1, 27), "did you mean `a`?"),
    ("select event_time, v from spark_catalog.tpcds.store_sales", (1, 27), "did you mean `tpcds.store_sales`?"),
    ("select event_time, v from x.y", (1, 27), "by their alias, in backticks if it has dots: `a`, `acme/orders`"),
    ("select event_time, v from my.tradez", (1, 27), "did you mean `my.trades`?"),
    ("select event_time, tpcds.store_sales.v from `tpcds.store_sales`", (1, 20), "write `tpcds.store_sales`.`v`"),
    ("select event_time, store_sales.v from `tpcds.store_sales`", (1, 20), "write `tpcds.store_sales`.`v`"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "place", "hint"), NAMES)
def test_a_name_that_is_meant_is_told(engine_call: EngineCall, sql: str, place: tuple[int, int], hint: str) -> None:
    first = validate(engine_call, sql, inputs=INPUTS).problems[0]
    assert (first.line, first.column) == place, first
    assert hint in (first.hint or ""), first


def test_names_that_are_meant_are_told_for_tables_that_are_not_there() -> None:
    for written, names in (("A", ("a",)), ("A", ("a", "A.x")), ("x", ()), ("a.b.c", ("a/b.c",))):
        told = unknown_table(tuple(written.split(".")), names)
        assert told.message == f"unknown table {written}"
        assert told.hint
    assert unknown_table(("A",), ("a", "A.x")).instead == (("A",), ("a",))
    assert unknown_table(("Xx",), ("xx", "xX")).instead is None


ALL_AND_ANY = [
    "select event_time, v from a where v > (select max(v) from b)",
    "select event_time, v from a where v > (select min(v) from b)",
    "select event_time, v from a where not exists (select 1 from b where (a.v > b.v) is not true)",
    "select event_time, 'it''s' x from a",
    "select event_time, last_value(v) ignore nulls over (partition by k order by v) x from a",
    "select event_time, listagg(k, ',') within group (order by k) x from a group by event_time",
]


@pytest.mark.parametrize("sql", ALL_AND_ANY)
def test_what_hints_tell_to_write_is_accepted(engine_call: EngineCall, sql: str) -> None:
    assert validate(engine_call, sql).problems == ()


def test_every_place_of_every_text_has_a_hint_or_none() -> None:
    whole = " ".join(sql for sql, *_ in FORMS + FUNCTIONS)
    for end in range(0, len(whole), 97):
        text = whole[max(0, end - 400) : end]
        for column in range(1, len(text) + 3, 11):
            hint = syntax_hint(text, 1, column, ["a/b"])
            assert hint is None or hint.strip()
        other_statement(text)
    assert syntax_hint("", 1, 1) is syntax_hint("select", None, None) is None


ELSEWHERE = [
    ("select o.event_time from a o asof join b i match_condition (o.event_time >= i.event_time)", "write join lateral ("),
    ("select window_time(window) event_time, k, sum(v) v from a group by window(event_time, '1 hour'), k", "window.end - interval"),
    ("with recursive n(i) as (select 1 union all select i + 1 from n where i < 9) select event_time, i from a join n on true", "sequence(1, 10)"),
    ("select event_time, my_udf(v) u from a", "there are no functions of users"),
    ("select event_time, upperr(k) u from a", "did you mean upper? Else there are no functions of users"),
    ("select a.event_time from a where exists (select 1 from b where b.k = a.k and exists (select 1 from b c where c.k = b.k and c.v = a.v))", "hand the column on in the query between"),
    ("select event_time, count(*) over (order by event_time range between interval 30 days preceding and interval 1 second preceding) n from a", "day to second preceding and"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "hint"), ELSEWHERE)
def test_what_spark_refuses_too_is_told_with_what_to_write(engine_call: EngineCall, sql: str, hint: str) -> None:
    first = validate(engine_call, sql).problems[0]
    assert hint in (first.hint or ""), first
    assert "spark.sql" not in first.message
    assert first.line == 1


FURTHER_OUT = "stands further out than the query around this one"
OUT = [
    ("select e.event_time from a e where exists (select 1 from b f where f.k in (select k from b g where g.v = e.v))", True),
    ("select event_time from a where k = (select max(k) from b where v = (select max(c.v) from b c where c.k = a.k))", True),
    ("select f.event_time from b f union all select a.event_time from b join a on a.k = b.k where exists (select 1 from b c where exists (select 1 from b d where d.v = a.v))", True),
    ("select a.event_time from a where exists (select 1 from b c where exists (select 1 from b d where d.v = a.w))", False),
    ("select a.event_time, a.vv from a join b on a.k = b.k", False),
    ("select q.event_time, a.v from (select * from a) q", False),
    ("select event_time, k from a union all select event_time, a.k from b", False),
    ("with e as (select event_time, k from a) select e.event_time from e where exists (select 1 from b where b.k = e.v)", False),
    ("select event_time, k from a where exists (select 1 from b where exists (select 1 from b c where c.v = e.v))", False),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "further"), OUT)
def test_only_a_table_of_a_query_further_out_is_taken_for_one(engine_call: EngineCall, sql: str, further: bool) -> None:
    first = validate(engine_call, sql).problems[0]
    assert first.rule == "unresolved-column"
    assert (FURTHER_OUT in (first.hint or "")) == further, first
    assert further or "did you mean `" in (first.hint or "")


ACCEPTED = [
    "select a.event_time, b.v from a join lateral (select v from b where b.k = a.k and b.event_time <= a.event_time order by b.event_time desc limit 1) b",
    "select a.event_time, b.v from a left join lateral (select v from b where b.k = a.k and b.event_time <= a.event_time order by b.event_time desc limit 1) b on true",
    "select window.end - interval 1 millisecond event_time, k, sum(v) v from a group by window(event_time, '1 hour'), k",
    "select window_time(w) event_time, k, v from (select window w, k, sum(v) v from a group by window(event_time, '1 hour'), k)",
    "select event_time, explode(sequence(1, 10)) i from a",
    "select a.event_time from a where exists (select 1 from (select b.*, a.v av from b) b where b.k = a.k and exists (select 1 from b c where c.k = b.k and c.v = b.av))",
    "select event_time, count(*) over (order by event_time range between interval '30 00:00:00' day to second preceding and interval '0 00:00:01' day to second preceding) n from a",
]  # fmt: skip


@pytest.mark.parametrize("sql", ACCEPTED)
def test_what_is_told_to_be_written_is_accepted(engine_call: EngineCall, sql: str) -> None:
    assert validate(engine_call, sql).problems == ()
