"""ValidateQuery: what a transform is, or everything that is wrong with it."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from odfabric.formats.slices.arrow_schema import data_schema_to_arrow
from odfabric.model.engine import ValidateRequest
from odfabric.model.metadata import TransformSql
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.compile.compile_query import validate_query
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.sql.validating import SCHEMA, VOCABULARY, validate

pytestmark = pytest.mark.spark

CLASSES = [
    ("select event_time, v from a", "linear", ()),
    ("select event_time, v from a union all select event_time, v from b", "linear", ()),
    ("select max(event_time) event_time, k, count(*) n from a group by k", "keyed", ("a.k",)),
    ("select max(event_time) event_time, upper(k) u, v from a group by upper(k), v", "keyed", ("upper(a.k)", "a.v")),
    ("select distinct event_time, k from a", "keyed", ("a.event_time", "a.k")),
    ("select window.start event_time, k from a group by window(event_time, '1 day'), k", "timed", ("window", "a.k")),
    ("select max(event_time) event_time, count(*) n from a group by window(t, '1 day')", "keyed", ("window",)),
    (
        "select window.start event_time, count(*) n from "
        "(select event_time, v from a union all select t as event_time, v from b) group by window(event_time, '1 day')",
        "keyed",
        ("window",),
    ),
    ("select a.event_time, b.v from a join b on a.k = b.k", "keyed", ("k",)),
    ("select a.event_time, b.v from a full join b on a.k = b.k", "keyed", ("k",)),
    ("select a.event_time, b.v from a, b where a.v < b.v", "keyed", ()),
    ("select event_time, v from a where v in (select v from b)", "keyed", ("v",)),
    ("select /*+ broadcast(b), repartition(3, k) */ a.event_time, b.v from a join b on a.k = b.k", "keyed", ("k",)),
    ("select event_time, size(collect_set(v) over (partition by k)) n from a", "keyed", ("k",)),
    (
        "select event_time, size(l) n from (select event_time, collect_list(v) over (partition by k) l from a)",
        "keyed",
        ("k",),
    ),
    (
        "from a |> aggregate max(event_time) event_time, collect_set(v) l group by k |> where size(l) > 1 |> select event_time, k",
        "keyed",
        ("k",),
    ),
    (
        "select max(event_time) event_time, k, arrays_overlap(collect_set(v), array(1)) o from a group by k",
        "keyed",
        ("k",),
    ),
    (
        "select max(event_time) event_time, k, sort_array(array_union(l, collect_list(v))) u from a group by k, l",
        "keyed",
        ("k", "l"),
    ),
    ("select event_time, v from a where exists (select 1 from b where b.k = a.k)", "keyed", ("k",)),
    ("select event_time, (select max(v) from b) m from a", "keyed", ()),
    ("select event_time, v from a where k not in (select k from b)", "keyed", ("k",)),
    ("select event_time, v from (select * from a order by v) q where v > 1", "linear", ()),
    ("select max(event_time) event_time, avg(v) m from (select event_time, v from a order by v limit 3)", "keyed", ()),
    ("select event_time, row_number() over (partition by k order by v) r from a", "keyed", ("k",)),
    ("select event_time, k, sum(d) over (partition by k) s from a", "keyed", ("k",)),
    ("select max(event_time) event_time, count(*) n from a", "keyed", ()),
    (
        "select max(event_time) event_time, n from "
        "(select max(event_time) event_time, k, count(*) n from a group by k) group by n",
        "keyed",
        ("a.k", "n"),
    ),
    (
        "select max(event_time) event_time, k, v from a group by rollup(k, v)",
        "keyed",
        ("a.k", "a.v", "spark_grouping_id"),
    ),
    ("select max(event_time) event_time, count(distinct k) n from a group by v", "keyed", ("a.v",)),
    ("select max(event_time) event_time, percentile(v, 0.5) n from a group by k", "keyed", ("a.k",)),
    ("select max(event_time) event_time, l from a group by l", "keyed", ("l",)),
    (
        "select event_time, k from a except select event_time, k from b",
        "keyed",
        ("event_time", "k", "a.event_time", "a.k"),
    ),
    ("select max(event_time) event_time, count(*) n from a group by make_ym_interval(0, v)", "keyed", ()),
    (
        "select max(event_time) event_time, count(*) n from a group by make_interval(0, coalesce(v, 0)), k",
        "keyed",
        ("k",),
    ),
    ("select event_time, v from a union all select timestamp '2020-01-01 00:00:00', 1", "linear", ()),
    (
        "select window.start event_time, count(*) n from a group by window(event_time, '2 hours', '1 hour')",
        "timed",
        ("window",),
    ),
    (
        "select session_window.start event_time, k, count(*) n from a group by session_window(event_time, '1 hour'), k",
        "timed",
        ("k",),
    ),
]


@pytest.mark.parametrize(("sql", "operator_class", "keys"), CLASSES)
def test_the_class_and_the_keys_are_told(
    engine_call: EngineCall, sql: str, operator_class: str, keys: tuple[str, ...]
) -> None:
    found = validate(engine_call, sql)
    assert (found.problems, found.operator_class, found.keys) == ((), operator_class, keys)


def test_the_output_schema_is_told(engine_call: EngineCall) -> None:
    found = validate(engine_call, "select v + 1L as w, event_time, k from a")
    assert found.data_schema is not None
    assert data_schema_to_arrow(found.data_schema) == pa.schema(
        [*list(SCHEMA)[:3], SCHEMA.field("event_time"), pa.field("w", pa.int64()), pa.field("k", pa.string())]
    )


REFUSED = [
    ("select event_time, v from a order by v limit 3", "limit"),
    ("select event_time, v from (select event_time, v from a sort by v limit 3)", "limit"),
    ("select event_time, size(sequence(1, 2000000000)) x from a", "constant-size"),
    ("select event_time, array_repeat(v, 2000000000) x from a", "constant-size"),
    ("select event_time, lpad(x'61', 2000000000, x'62') x from a", "constant-size"),
    ("select event_time, format_number(1, 1000000000) x from a", "constant-size"),
    ("select event_time, replace(space(16000000), ' ', space(100)) x from a", "constant-size"),
    ("select event_time, repeat('x', 10000000) x, repeat('y', 10000000) y from a", "constant-size"),
    ("select event_time, repeat('a', length(repeat('a', length(repeat('a', 15000000))))) x from a", "constant-size"),
    ("select event_time, size(sequence(timestamp'0001-01-01', timestamp'9999-01-01', make_interval(0,0,0,0,0,0,0.000001))) x "
     "from a", "constant-size"),
    ("select event_time, cast(right(concat(repeat('x', 9000000), repeat('x', 9000000), 'now'), 3) as timestamp) x from a", "special-time"),
    ("select event_time, cast(right(concat(repeat('x', 900), 'now'), 3) as timestamp) x from a", "special-time"),
    ("select event_time, array(t, cast(left('today', 5) as timestamp)) x from a", "special-time"),
    ("select event_time, v from a where event_time < cast(btrim(' now ') as timestamp)", "special-time"),
    ("select event_time, cast(right('xtoday', 5) as date) x from a", "special-time"),
    ("select event_time, x from a lateral view stack(2000000000, v) as x", "constant-size"),
    ("select event_time, (k in (select k from b)) is null x from a", "not-in"),
    ("select event_time, (select map(k, v) from b) is null x from a", "subquery-rows"),
    ("select event_time, x from a, lateral (select v x from b where b.k = a.k limit 1)", "limit"),
    ("select max(event_time) event_time, k, first(v) f from a group by k", "function-order"),
    ("select event_time, first(1) over (partition by k rows between 2 preceding and 1 preceding) f from a", "function-order"),
    ("select event_time, collect_list(v) over (partition by k) l from a", "function-order"),
    ("select event_time, l[0] x from (select event_time, collect_set(v) over (partition by k) l from a)", "function-order"),
    ("select max(event_time) event_time, s from (select event_time, k, collect_set(v) over (partition by k) s from a) group by s", "function-order"),
    ("with q as (select max(event_time) event_time, k, collect_set(v) s from a group by k) "
     "select x.event_time, size(x.s) n, y.s[0] m from q x join q y using (k)", "function-order"),
    ("with q as (select max(event_time) event_time, k, collect_set(v) s from a group by k), r as (select event_time, k, s as u from q) "
     "select event_time, size(u) n from r where exists (select 1 from q where q.k = r.k and q.s[0] = 3)", "function-order"),
    ("with q as (select max(event_time) event_time, k, collect_set(v) s from a group by k) select * from q where size(s) > 2", "function-order"),
    ("select event_time, s[0] m from (select max(event_time) event_time, collect_set(v) s from a group by k "
     "union all select max(event_time) event_time, collect_set(v) s from a group by t)", "function-order"),
    ("select max(event_time) event_time, s from (select max(event_time) event_time, k, collect_set(v) s from a group by k) group by s", "function-order"),
    ("select event_time, size(s) n from (select max(event_time) event_time, k, collect_list(map(k, v)) s from a group by k)", "function-order"),
    ("select event_time, size(s) n from (select max(event_time) event_time, k, transform(collect_list(d), x -> x * 0) s from a group by k)", "function-order"),
    ("select event_time, size(collect_set(d) over (partition by k)) n from a", "function-order"),
    ("select max(event_time) event_time, k, array_union(collect_set(v), array(1)) u from a group by k", "function-order"),
    ("select /*+ nothing(3) */ event_time, v from a", "hint"),
    ("select max(event_time) event_time, map(k, v) m from a group by map(k, v)", "group-type"),
    ("with recursive r as (select 1 n union all select n + 1 from r) select event_time from a, r", "recursion"),
    ("select event_time, v from a tablesample (10 percent)", "sample"),
    ("select event_time, event_time - timestamp'2020-01-01' as x from a", "column-type"),
    ("select a.event_time, a.`offset`, b.v from a join b on a.k = b.k", "system-column"),
    ("select max(event_time) event_time, op, count(*) n from a group by op", "system-column"),
    ("select max(event_time) event_time, k, max(`offset`) n from a group by k", "system-column"),
    ("select max(event_time) event_time, k from a where system_time > t group by k", "system-column"),
    ("select max(event_time) event_time, k, 0 as op from a group by k", "system-column"),
    ("select /*+ lateness('1 day') */ event_time, v from a", "hint"),
    ("select /*+ lateness('1 day') */ max(event_time) event_time, k from a group by k", "hint"),
    ("select k, v from a", "event-time"),
    ("select cast(event_time as string) event_time, v from a", "event-time"),
    ("select event_time, `offset` from a", "system-column"),
    ("select event_time, 1 as Offset from a", "system-column"),
    ("select event_time, system_time from a", "system-column"),
    ("select event_time, cast(op as bigint) op from a", "system-column"),
    ("select event_time, v as OP from a", "system-column"),
    ("select event_time, v, k as V from a", "column-name"),
    ("select event_time, v from (select event_time, v, k as __odf_k from a)", "column-name"),
    ("select event_time, null as x from a", "column-type"),
    ("select event_time, map(k, v) as x from a", "column-type"),
    ("select event_time, array(struct(v)) as x from a", "column-type"),
    ("select event_time, rand() as x from a", "function-random"),
    ("select event_time, sum(v) over (order by t rows between cast(null as int) preceding and current row) as x from a", "window-frame"),
    ("select event_time, lag(v, cast(null as int)) over (partition by k order by t) as x from a", "window-frame"),
    ("select event_time, nope from a", "unresolved-column"),
    ("select event_time, v from c", "relation"),
    ("selec event_time from a", "parse-syntax-error"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "rule"), REFUSED)
def test_what_cannot_run_is_refused_with_a_rule(engine_call: EngineCall, sql: str, rule: str) -> None:
    found = validate(engine_call, sql)
    assert [problem.rule for problem in found.problems][:1] == [rule]
    first = found.problems[0]
    assert first.message
    assert first.hint
    assert first.line == 1
    assert first.column
    assert (found.data_schema, found.operator_class, found.keys) == (None, None, ())


SPARKS_OWN = [
    ("select event_time,\n k, count(*) n from a group by event_time", "missing-aggregation", (2, 2), "GROUP BY"),
    ("select event_time,\n upper(k, 1) u from a", "wrong-num-args", (2, 2), "upper(..) with 1 argument"),
    ("select event_time,\n named_struct('a') s from a", "wrong-num-args", (2, 2), "named_struct(name, value, ..)"),
    ("select event_time,\n V from a", "unresolved-column", (2, 2), "write `v`: upper and lower case"),
    ("select EVENT_TIME, v from a", "unresolved-column", (1, 8), "write `event_time`: upper and lower case"),
    ("select event_time, q.V from a q", "unresolved-column", (1, 20), "write `q`.`v`: upper and lower case"),
    ("select event_time, max(V) as V from a group by 1", "unresolved-column", (1, 24), "write `v`: upper and lower case"),
    ("select evnt_time as evnt_time, v from a", "unresolved-column", (1, 8), "did you mean `event_time`? WHERE and ON"),
    ("select event_time, Q.v from a q", "unresolved-column", (1, 20), "write `q`.`v`: upper and lower case"),
    ("select event_time, s.M from (select event_time, named_struct('m', v) s from a)", "field-not-found", (1, 20), "write `m`: upper and lower case"),
    ("select max(event_time) as Event_Time, k from a group by k", "event-time", (1, 8), "Event_Time so: .. as event_time. Upper and lower case"),
    ("select event_time, v from a order by v desc limit 3", "limit", (1, 29), "select * from (select .. order by .. limit 10)"),
    ("from a |> order by v |> limit 3", "limit", (1, 25), "select * from (select .. order by .. limit 10)"),
    ("select * from a join b using (k)", "column-name", (1, 1), "t.* EXCEPT (event_time, v, d, t, l)"),
    ("select *, v from a", "column-name", (1, 1), "t.* EXCEPT (v)"),
    ("select max(event_time), k from a group by k", "event-time", (1, 1), "name it: max(event_time) as event_time"),
    ("select * from (select event_time, k, v from a) pivot (sum(v) as s, max(event_time) as event_time for k in ('x', 'y'))",
     "event-time", (1, 1), "greatest(x_event_time, y_event_time) as event_time"),
    ("select max(event_time) event_time, count(*) op from a group by k", "system-column", (1, 36), "name it otherwise"),
    ("select event_time, e.value from a, lateral variant_explode(parse_json(k)) e", "table-function", (1, 44), "explode(cast("),
    ("select event_time, q.v from a", "unresolved-column", (1, 20), "did you mean `a`.`v`?"),
    ("select event_time, vv from a", "unresolved-column", (1, 20), "did you mean `v`, "),
    ("select event_time, a.k from a join b on a.k = b.k", "ambiguous-reference", (1, 8), "`a`.`event_time` or `b`."),
    ("select event_time, v from a\nwhere row_number() over (order by v) = 1",
     "window-function-not-allowed-in-clause", (2, 1), "QUALIFY"),
    ("select event_time,\n lag(v) over (partition by k) l from a", "window-function-frame-not-ordered", (2, 2), "order by"),
    ("select a.event_time from a join b using (\nzz)", "unresolved-using-column-for-join", (2, 1), "on a.x = b.y"),
    ("select event_time,\n struct(v, k).zz z from a", "field-not-found", (2, 15), "there are `v`, `k`"),
    ("select event_time, v from a where sum(v) > 1", "invalid-where-condition", (1, 35), "HAVING"),
    ("select event_time, v from (\n select event_time, v from a where count(*) > 1) where v = 1",
     "invalid-where-condition", (2, 36), "HAVING"),
    ("select event_time, v\nfrom a where v", "datatype-mismatch", (2, 14), "write a condition"),
    ("select event_time, sum(count(*)) n from a group by 1", "nested-aggregate-function", (1, 24), "twice"),
    ("select event_time, v from a union all select event_time from b", "num-columns-mismatch", (1, 29), "same columns"),
    ("select event_time, v from a union all (select event_time, v from a\nminus select event_time from b) union select event_time, v from a",
     "num-columns-mismatch", (2, 1), "same columns"),
    ("select event_time, v from a\nunion all select event_time, v from b\n union select event_time, array(v) from (select * from a union select * from a)",
     "incompatible-column-type", (3, 2), "one type"),
    ("select a.event_time from a\njoin b on a.v", "join-condition-is-not-boolean-type", (2, 1), "on a.x = b.y"),
    ("select a.event_time from a\njoin b on sum(b.v) = a.v", "unsupported-expr-for-operator", (2, 1), "of its own"),
    ("select a.event_time from a left join b on a.k = b.k and b.v = (select max(v) from b c where c.k = a.k)",
     "unsupported-subquery-expression-category", (1, 28), "join its rows"),
    ("select max(event_time) event_time, (select max(v) from b where b.k = a.k) w from a",
     "scalar-subquery-is-in-group-by-or-aggregate-function", (1, 36), "max((select ..))"),
    ("select a.event_time, b.v from a left join b for system_time as of a.event_time on a.k = b.k",
     "statement", (1, 45), "temporalTables"),
    ("select window.start event_time from a group by window(event_time, '1 hour', '2 hours')",
     "unresolved-column", (1, 8), "a slide is not longer"),
    ("select /*+ lateness('999999999 weeks') */ window.start event_time from a group by window(event_time, '1 hour')",
     "hint", (1, 8), "lateness('1 day')"),
    ("select event_time, input_file_name() f from a", "function-physical", (1, 20), "before it is pushed"),
    ("select event_time,\n first_value(try_parse_json(k)) over (partition by v order by event_time) f from a",
     "function-order", (1, 1), "use its members"),
    ("select event_time, t > 5 x from a", "datatype-mismatch", (1, 20), "TIMESTAMP '2024-01-31 12:00:00'"),
    ("select event_time, l > 5 x from a", "datatype-mismatch", (1, 20), "cast("),
    ("select window.start event_time from a\ngroup by window(event_time, '1 month')", "statement", (2, 29), "date_trunc"),
    ("select event_time, v from a pivot (sum(v) for k in ('x'))", "unresolved-column", (1, 20), "did you mean `x`"),
    ("select event_time, v from a;\nselect 1", "statement", (2, 1), "a step for each"),
    ("select event_time, v from a;;", "statement", (1, 29), "a step for each"),
    ("select event_time, v * 2 w from a where w > 3", "unresolved-column", (1, 41), "what SELECT names"),
    ("select event_time, v * 2 w from a where vv > 3", "unresolved-column", (1, 41), "did you mean `v`"),
    ("select event_time, v from A", "relation", (1, 27), "write `a`: upper and lower case"),
    ("select event_time, foo(v) x from a", "function-unknown", (1, 20), "other functions"),
    ("select event_time, upperr(k) x from a", "function-unknown", (1, 20), "did you mean upper?"),
    ("select event_time, safe_divide(v, 2) x from a", "function-unknown", (1, 20), "try_divide(a, b)"),
    ("select distinct on (k) event_time, v from a", "function-unknown", (1, 17), "QUALIFY row_number()"),
    ("select event_time, count(distinct v) over (partition by k) n from a",
     "distinct-window-function-unsupported", (1, 20), "size(collect_set(..)"),
    ("select event_time, median(v) over (partition by k order by event_time rows 4 preceding) n from a",
     "invalid-window-spec-for-aggregation-func", (1, 20), "leave out ORDER BY and the frame"),
    ("select event_time, v * DECIMAL '0.19' x from a", "unsupported-typed-literal", (1, 24), "0.19BD"),
    ("select event_time from a where event_time > DATE '2026-02-30'", "invalid-typed-literal", (1, 45), "'2026-02-28'"),
    ("select q.* from (select event_time, v from a) q (x)", "assignment-arity-mismatch", (1, 17), "as many names"),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "rule", "place", "hint"), SPARKS_OWN)
def test_what_spark_refuses_has_a_place_and_says_what_to_write(
    engine_call: EngineCall, sql: str, rule: str, place: tuple[int, int], hint: str
) -> None:
    first = validate(engine_call, sql).problems[0]
    assert (first.rule, (first.line, first.column)) == (rule, place)
    assert hint in (first.hint or "")
    assert not re.search(r"#\d|https?:|\[[A-Z_]+\]", first.message)


def test_one_mistake_is_told_once(engine_call: EngineCall) -> None:
    for sql in (
        "select event_time, v from a order by v desc limit 3",
        "select event_time, v from a order by v limit 3 offset 2",
        "select event_time, v from a order by v offset 2",
        "select event_time, v from a order by v limit all",
        "select event_time, v from a where k collate utf8_lcase = 'x'",
    ):
        assert len(validate(engine_call, sql).problems) == 1, sql


@pytest.mark.parametrize("end", [";", " ; -- that is all\n"])
def test_a_statement_may_end_with_a_semicolon(engine_call: EngineCall, end: str) -> None:
    plain = validate(engine_call, "select event_time, ';' x, v from a", "select event_time, v from s0")
    found = validate(engine_call, f"select event_time, ';' x, v from a{end}", f"select event_time, v from s0{end}")
    assert found == plain
    assert found.problems == ()


@pytest.mark.parametrize("comment", ["/* a /* b */ ; c */", "-- a \\\n ; b", "/* ; */", "-- ;"])
def test_a_semicolon_in_a_comment_ends_nothing(engine_call: EngineCall, comment: str) -> None:
    """Spark's comments nest, and a line of them goes on behind a backslash."""
    assert validate(engine_call, f"select event_time, v {comment}\n from a").problems == ()


@pytest.mark.parametrize(
    ("early", "rule"),
    [
        ("select event_time,\n (select map(k, v) from b) is null x from a;", "subquery-rows"),
        ("select event_time,\n map(k, v) x from a", "column-type"),
        ("select event_time,\n collect_list(v) over (partition by k) x from a", "function-order"),
        ("select event_time,\n zz x from a", "unresolved-column"),
        ("select max(event_time) event_time,\n k x from a group by v", "missing-aggregation"),
    ],
)
def test_a_problem_is_told_of_the_statement_that_it_stands_in(engine_call: EngineCall, early: str, rule: str) -> None:
    found = validate(engine_call, early, "select event_time, x from s0")
    assert [(p.step, p.rule, p.line, p.column) for p in found.problems] == [(0, rule, 2, 2)]


PLACED = [
    ("with x as (select * from a)\nselect event_time, null as n from x", 2, 20),
    ("with x as (select * from a)\nselect k from x", 2, 1),
    ("with x as (select * from a)\nselect /*+ lateness('1 day') */ event_time, k from x", 2, 8),
    ("select k as a, event_time,\n map(k, v) as ab from a", 2, 2),
    ("select max(event_time) event_time,\n map(k, sum(v)) m from a group by k having sum(v) > 1", 2, 2),
    ("select distinct event_time,\n null m from a", 2, 2),
    ("select 'é😀' x, sum(v) s\nfrom a\nwhere v > (select 1)\ngroup by k", 1, 1),
    ("with q as (select k, v from a)\n select k, count(*) n from q\ngroup by k", 2, 2),
    ("select window.start, k\nfrom a group by window(event_time, '1 day'), k", 1, 1),
    ("select k from a\nunion all\nselect max(k) from b\ngroup by k", 1, 1),
    ("from a\n|> aggregate count(*) n group by k", 1, 1),
    ("select event_time, count(*) over (partition by k) c,\n null n from a", 2, 2),
]


@pytest.mark.parametrize(("sql", "line", "column"), PLACED)
def test_a_column_is_told_where_the_query_makes_it(engine_call: EngineCall, sql: str, line: int, column: int) -> None:
    problem = validate(engine_call, sql).problems[0]
    assert (problem.line, problem.column) == (line, column), problem


INTERVALS = [
    "select max(event_time) event_time, count(*) n from a group by make_interval(0, v)",
    "select distinct event_time, make_interval(0, v) is null n from (select distinct event_time, v, array(make_interval(0, v)) i from a)",
    "select event_time from (select event_time, make_interval(0, v) i from a intersect all select event_time, make_interval(0, v) from b)",
]


@pytest.mark.parametrize("sql", INTERVALS)
def test_intervals_of_which_nulls_are_several_groups_are_refused(engine_call: EngineCall, sql: str) -> None:
    (problem,) = validate(engine_call, sql).problems
    assert (problem.rule, "numbers" in (problem.hint or "")) == ("group-type", True)


KEPT = [
    ("parse_json('{}') t", "q.t:u::int", "t", "variant", "parse_json"),
    ("map(a.k, b.v) t", "q.t['u']", "t", "map<string,int>", "map_entries"),
    ("array(named_struct('m', map('u', b.v))) t", "q.t[0].m['u']", "t", "map<string,int>", "map_entries"),
    ("array(null) t", "size(q.t)", "t", "void", "cast(null as ..)"),
    ("make_ym_interval(0, b.v) t", "extract(month from q.t)", "t", "interval year to month", "number of months"),
    ("make_interval(0, b.v) t", "q.event_time + q.t", "t", "interval", "its numbers"),
]


@pytest.mark.parametrize(("made", "used", "name", "type_name", "way"), KEPT)
def test_a_column_that_cannot_leave_its_stage_is_refused(
    engine_call: EngineCall, made: str, used: str, name: str, type_name: str, way: str
) -> None:
    below = f"select a.event_time, b.v,\n  {made} from a join b on a.k = b.k"
    (problem,) = validate(engine_call, f"select q.event_time, {used} u from ({below}) q join b c on q.v = c.v").problems
    assert (problem.rule, problem.line, problem.column) == ("kept-type", 2, 3)
    assert f"column {name} " in problem.message
    assert f"type {type_name} " in problem.message
    assert way in (problem.hint or "")
    unused = validate(engine_call, f"select q.event_time, c.v from ({below}) q join b c on q.v = c.v")
    assert unused.problems == ()


NOTHING = "select max(a.event_time) as event_time, a.k, null as t from a group by a.k"
TYPED = [
    (f"{NOTHING} union all select event_time, k, v from b", {"t": "Int32"}),
    (f"{NOTHING} union all select event_time, null, cast(v as string) from b", {"t": "String"}),
    (
        f"select event_time, k, t is null as n, coalesce(t, 'x') as c from ({NOTHING}) q where t is null",
        {"c": "String"},
    ),
    ("select event_time, row_number() over (order by (select null)) as n from a", {"n": "Int32"}),
]


@pytest.mark.parametrize(("sql", "types"), TYPED)
def test_nothing_has_the_type_that_is_asked_for(engine_call: EngineCall, sql: str, types: dict[str, str]) -> None:
    found = validate(engine_call, sql)
    assert found.problems == ()
    assert found.data_schema is not None
    named = {field.name: str(field.type) for field in found.data_schema.fields}
    assert all(kind in named[name] for name, kind in types.items()), named


READ_OTHERWISE = (
    "select event_time, max(null) over (partition by k) is null as n from a",
    "select event_time, lag(null) over (partition by k order by v) is null as n from a",
    "select event_time, coalesce(first_value(q) over (partition by k order by v), 7) as n from (select event_time, k, v, null q from a)",
    "select a.event_time, coalesce(a.q, null) is null as n from (select *, null q from a) a join b on a.k = b.k",
    "select event_time, if(c > 0, q, null) is null as n from (select *, null q, count(*) over (partition by k) c from a)",
)


@pytest.mark.parametrize("sql", READ_OTHERWISE)
def test_nothing_that_is_read_in_other_ways_stays_as_it_is(engine_call: EngineCall, sql: str) -> None:
    assert validate(engine_call, sql).problems == ()


def test_nothing_stays_nothing_in_a_result(engine_call: EngineCall) -> None:
    (problem,) = validate(engine_call, f"select event_time, k, t from ({NOTHING}) q").problems
    assert (problem.rule, problem.message) == ("column-type", "the column t is NULL in every row")


def test_a_column_without_a_name_that_cannot_be_kept_is_shown_as_it_is_written(engine_call: EngineCall) -> None:
    sql = "select event_time, count(*) over (partition by make_ym_interval(0, v)) n from a"
    (problem,) = validate(engine_call, sql).problems
    assert (problem.rule, "column make_ym_interval(0, v) is" in problem.message) == ("kept-type", True), problem


@pytest.mark.parametrize("value", ["map(k, v)", "parse_json(k)", "make_interval(0, v)", "struct(make_interval(0, v))"])
def test_a_value_without_an_order_is_not_picked_from_rows_that_tie(engine_call: EngineCall, value: str) -> None:
    sql = f"select max(event_time) event_time, cast(min_by({value}, v) as string) c from a group by k"
    (problem,) = validate(engine_call, sql).problems
    assert (problem.rule, problem.line, problem.column) == ("function-order", 1, 41), problem
    named = "select max(event_time) event_time, min_by(struct(v as map), v).map c from a group by k"
    assert validate(engine_call, named).problems == ()


@pytest.mark.parametrize(
    "sql",
    [
        "select max(event_time) event_time, s.map x, count(*) n from (select *, named_struct('map', v, 'interval', k) s from a) group by s",
        "select event_time, named_struct('collateral', v, 'variant', k) s from a",
        "select event_time, s.double x, row_number() over (partition by s order by event_time) n from (select *, struct(v as double) s from a)",
    ],
)
def test_members_may_have_names_of_types(engine_call: EngineCall, sql: str) -> None:
    assert validate(engine_call, sql).problems == ()


def test_a_map_of_an_input_that_would_be_kept_is_refused(engine_call: EngineCall) -> None:
    schema = SCHEMA.append(pa.field("m", pa.map_(pa.string(), pa.int32())))
    rowwise = "select a.event_time, a.v from a where a.m['x'] > 1"
    assert validate(engine_call, rowwise, schema=schema).problems == ()
    sql = "select a.event_time, b.v from a join b on a.k = b.k and a.m['x'] < b.v"
    (problem,) = validate(engine_call, sql, schema=schema).problems
    assert (problem.rule, "map_keys" in (problem.hint or "")) == ("kept-type", True), problem
    assert (problem.line, problem.column is not None) == (1, True)
    (problem,) = validate(
        engine_call, "select max(event_time) event_time,\n count(distinct *) c from a", schema=schema
    ).problems
    assert (problem.rule, problem.line, problem.column is not None) == ("kept-type", 1, True)


@pytest.mark.parametrize(
    ("sql", "rule"),
    [
        ("select event_time, v,\n named_struct('m', v, 'm', k) as x from a", "column-name"),
        ("select event_time,\n array(named_struct('m', 1, 'm', 2)) as x from a", "column-name"),
        ("select q.event_time, q.v from (select *,\n arrays_zip(array(k), array(k), array(v)) as x from a) q"
         " join a on q.v = a.v and size(array_remove(q.x, null)) < a.v", ""),
        ("select event_time, v,\n row_number() over (partition by named_struct('m', v, 'm', k) order by event_time, v, k) n from a",
         "group-type"),
        ("select max(event_time) event_time, count(*) n from a group by\n named_struct('m', v, 'm', k)", "group-type"),
        ("select max(event_time) event_time,\n to_json(max(named_struct('m', v, 'm', k))) x from a group by v", ""),
    ],
)  # fmt: skip
def test_members_of_one_name_are_refused_where_they_would_be_stored(
    engine_call: EngineCall, sql: str, rule: str
) -> None:
    problems = validate(engine_call, sql).problems
    found = [(each.rule, each.line) for each in problems if "named_struct" in (each.hint or "")]
    assert found == ([(rule, 2)] if rule else []), problems


def test_the_statement_that_is_wrong_is_named(engine_call: EngineCall) -> None:
    found = validate(engine_call, "select event_time, v from a", "select event_time,\n now() n, rand() r from s0")
    assert [(p.step, p.rule, p.line, p.column) for p in found.problems] == [
        (1, "function-clock", 2, 2), (1, "function-random", 2, 11),
    ]  # fmt: skip


def test_a_lateness_for_nothing_is_told_where_it_is_asked_for(engine_call: EngineCall) -> None:
    found = validate(
        engine_call, "select\n  /*+ lateness('1 day') */ event_time, v from a", "select event_time, v from s0"
    )
    assert [(p.step, p.rule, p.line) for p in found.problems] == [(0, "hint", 2)]


def test_another_engine_is_refused(engine_call: EngineCall) -> None:
    request = ValidateRequest(
        vocabulary=VOCABULARY, transform=TransformSql(engine="flink", query="select 1"), inputs=()
    )
    (problem,) = validate_query(request, engine_call).problems
    assert (problem.rule, problem.hint) == ("engine", "write the query for `engine: spark`")


def test_a_column_type_that_spark_does_not_have_is_told(engine_call: EngineCall) -> None:
    schema = SCHEMA.append(pa.field("x", pa.time64("us")))
    (problem,) = validate(engine_call, "select event_time, v from a", schema=schema).problems
    assert problem.rule == "incompatible-schema"
    assert "`x`" in problem.message


def test_inputs_without_schema_are_judged_by_text_alone(engine_call: EngineCall) -> None:
    fine = validate(engine_call, "select event_time, anything from a", schema=None)
    assert (fine.problems, fine.data_schema, fine.operator_class) == ((), None, None)
    (problem,) = validate(engine_call, "select event_time, rand() r from a", schema=None).problems
    assert problem.rule == "function-random"


def test_the_same_alias_twice_is_refused(engine_call: EngineCall) -> None:
    (problem,) = validate(engine_call, "select event_time from a", inputs=("a", "a")).problems
    assert problem.rule == "inputs"


def test_the_vocabulary_of_the_output_counts(engine_call: EngineCall) -> None:
    own = DatasetVocabulary(event_time="date", operation_type="kind")
    assert validate(engine_call, "select cast(event_time as date) date, 1 as op from a", vocabulary=own).problems == ()
    (problem,) = validate(engine_call, "select event_time, v from a", vocabulary=own).problems
    assert "no column date" in problem.message


def test_a_condition_of_many_branches_is_judged_like_one_of_few(engine_call: EngineCall) -> None:
    branches = " ".join(f"when v = {number} then 'x{number}'" for number in range(400))
    result = validate(engine_call, f"select event_time, case {branches} end as name from a")
    assert result.problems == ()
    chosen = " ".join(f"when max(v) = {number} then collect_list(v)" for number in range(3))
    ordered = validate(engine_call, f"select max(event_time) event_time, size(case {chosen} end) n from a group by k")
    assert ordered.problems == ()
    seen = validate(
        engine_call, f"select max(event_time) event_time, k, element_at(case {chosen} end, 1) n from a group by k"
    )
    assert [problem.rule for problem in seen.problems][:1] == ["function-order"]


def test_an_interval_of_months_within_a_query_is_a_refusal(engine_call: EngineCall) -> None:
    query = "select max(event_time) event_time, avg(make_ym_interval(0, cast(v as int))) i from a group by k"
    (problem,) = validate(engine_call, query).problems
    assert (problem.rule, problem.line) == ("kept-type", 1), problem
    assert problem.hint


SMALL = [
    "size(sequence(timestamp'2020-01-01', timestamp'2024-01-01', interval 1 month))",
    "size(sequence(timestamp'2020-01-01', timestamp'2024-01-01'))",
    "size(sequence(date'2020-01-01', date'2024-01-01', interval 1 day))",
    "size(sequence(date'2020-01-01', date'2024-01-01'))",
    "size(sequence(timestamp'2024-01-01', timestamp'2024-01-02', interval '1' hour))",
    "size(sequence(1, 1000000, 7))",
    "length(repeat('ab', 1000))",
    "lpad(k, 10, '0')",
    "format_string('%1$-20s|%2$05d|%3$,d', k, v, v)",
    "cast(round(d, 2) as string)",
    "format_number(d, 2)",
    "replace(k, 'a', 'b')",
    "levenshtein(k, 'abc')",
    f"length('{'x' * 600}' || {' || '.join(['k'] * 40)})",
]


@pytest.mark.parametrize("expression", SMALL)
def test_constants_of_a_common_size_are_accepted(engine_call: EngineCall, expression: str) -> None:
    assert validate(engine_call, f"select event_time, {expression} x from a").problems == ()


def test_a_long_format_is_read_at_once(engine_call: EngineCall) -> None:
    for odd in ("%" + " " * 300_000, "% " * 150_000, "%1" * 150_000):
        validate(engine_call, f"select event_time, format_string('{odd}', v) x from a")
