"""Row-by-row aggregates equal Spark's and do not depend on order in transforms."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from random import Random

import pytest
from pyspark.errors import PySparkException

from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import children
from odfabric_engine_spark.spark.session import SparkProcess, interpret, request_session
from odfabric_engine_spark.sql import row_order_dependence
from odfabric_engine_spark.sql.allowed_functions import expression_classes
from odfabric_engine_spark.sql.refusal import data_problem
from tests.services.engine.plan.normalising import Queries, Rows, random_rows
from tests.services.engine.sql.validating import validate

pytestmark = pytest.mark.spark

MOMENTS = (
    "skewness(d)", "kurtosis(d)", "corr(d, n)", "covar_pop(d, v)", "covar_samp(v, n)", "regr_slope(v, d)", "regr_intercept(d, v)", "regr_r2(d, v)", "regr_sxx(v, d)", "regr_sxy(d, n)",
    "regr_syy(d, n)", "regr_avgx(v, d)", "regr_avgy(v, n)", "regr_count(d, v)", "skewness(d) filter (where v > 1)",
    "corr(d, 1.0)", "stddev(d * null)", "corr(distinct d, v)",
)  # fmt: skip
OTHERS = (
    "sum(d)", "avg(d)", "min(struct(d, n))", "max(array(-d, d))", "median(d)", "percentile(d, array(0.1, 0.9))",
    "percentile_disc(0.1) within group (order by d)", "min_by(d, n)", "max_by(n, d)", "min_by(d, n, 3)", "mode(d, true)",
    "array_sort(collect_list(d))", "sort_array(collect_list(struct(d, k)), false)", "sort_array(collect_set(array(d)))",
    "listagg(z, '+') within group (order by d desc)", "sort_array(collect_union(l))", "array_max(collect_list(d))",
    "avg(v * 3002399751580331 + n)",
    "hex(count_min_sketch(n, 0.5d, 0.5d, 1))", "approx_count_distinct(d)",
    "array_contains(collect_set(n), 3L)", "arrays_overlap(collect_list(n), array(2L, 7L))", "size(cast(collect_set(n) as array<string>))",
)  # fmt: skip
"""Results of these, too, may not depend on the order of rows, nor on which zero or NaN comes first."""

FINITE = "where d between -10 and 10 or d is null"


def queries_of(spark: SparkProcess, rows: Rows, *, partitions: int = 1) -> Queries:
    session = request_session(spark.session)
    interpret(session)
    session.conf.set("spark.sql.shuffle.partitions", f"{partitions}")
    session.conf.set("spark.sql.leafNodeDefaultParallelism", f"{partitions}")
    return Queries(session, spark.settings, rows)


@pytest.fixture(scope="module")
def queries(spark: SparkProcess) -> Queries:
    return queries_of(spark, random_rows(0))


def named(calls: tuple[str, ...]) -> str:
    return ", ".join(f"{call} c{number}" for number, call in enumerate(calls))


def test_moments_are_those_of_spark(queries: Queries) -> None:
    """All but the last digits, which in Spark depend on the order of rows."""
    sql = f"select k, {named(MOMENTS)} from a {FINITE} or z is null group by k"
    found, judged = (sorted(rows, key=str) for rows in (queries.rows_of(queries.normal(sql)), queries.plain(sql)))
    assert len(found) == len(judged) == 4
    for row, other in zip(found, judged, strict=True):
        assert [value is None for value in row] == [value is None for value in other]
        for call, value, wanted in zip(MOMENTS, row[1:], other[1:], strict=True):
            if value is not None:
                assert float(value) == pytest.approx(float(wanted), rel=1e-9, abs=1e-12, nan_ok=True), call


def test_no_order_of_rows_changes_a_bit(spark: SparkProcess) -> None:
    """Groups have NaN and zeros of both signs, but for the one of those who have no k."""
    sql = f"select k, {named((*MOMENTS[:3], *OTHERS))} from a where k is not null or d between -10 and 10 group by k"
    rows = random_rows(1, count=60)
    shuffled = {alias: Random(2).sample(each, len(each)) for alias, each in rows.items()}
    first, second = queries_of(spark, rows), queries_of(spark, shuffled, partitions=2)
    assert first.rows_of(first.normal(sql)) == second.rows_of(second.normal(sql))


LEAVING = (
    "select size(s) c, sort_array(t) t from (select k, collect_list(v) s, array_agg(struct(z, -d)) t, "
    "filter(collect_set(n), e -> e > 1) u from a group by k) where array_contains(u, 2)"
)
"""Lists that leave their group as they were made: nothing in the query looks at their order, but rows that hold them are compared."""


def test_lists_that_leave_a_group_do_not_depend_on_the_order_of_rows(spark: SparkProcess) -> None:
    rows = random_rows(1, count=60)
    found = []
    for seed in range(3):
        shuffled = {alias: Random(seed).sample(each, len(each)) for alias, each in rows.items()}
        queries = queries_of(spark, shuffled, partitions=seed + 1)
        query = queries.normal(LEAVING)
        (of_groups,) = children(query.plan)
        found.append(queries.rows_of(replace(query, plan=of_groups)))
    assert found[0] == found[1] == found[2]
    assert all(len(row) >= 3 for row in found[0])


def test_moments_over_values_do_not_depend_on_the_order_of_rows(spark: SparkProcess) -> None:
    over = [f"{call} over w" for call in (*MOMENTS[:9], "collect_list(v)")]
    over[-1] = f"sort_array({over[-1]})"
    sql = f"select k, n, {named(tuple(over))} from a window w as (partition by k order by n range between 1 preceding and current row)"
    rows = random_rows(1, count=60)
    first, second = (
        queries_of(spark, {alias: Random(seed).sample(each, len(each)) for alias, each in rows.items()})
        for seed in range(2)
    )
    assert first.rows_of(first.normal(sql)) == second.rows_of(second.normal(sql))


LARGEST = 2**63 - 1
LONGS = {1: (1, -5, LARGEST), 2: (1, 1, 2**53), 3: (1, 1, LARGEST)}
"""By k: sums that overflow on the way in some orders, averages that doubles do not hold, a sum that overflows."""

WHOLE = (
    "select k, try_sum(v), avg(v), sum(distinct n) from a group by k",
    "select k, sum(v), avg(v) filter (where n > 0), try_avg(distinct v), count(distinct v) from a where k < 3 group by k",
    "select k, try_sum(v) over (partition by k), avg(v) over (partition by k), try_avg(v) over (partition by k) from a",
    "select k, sum(v) over w, avg(v) over w from a where k < 3 window w as (partition by k order by n)",
    "select k, try_sum(v) over (partition by k order by v rows 1 preceding) from a",
)


def of_longs(order: tuple[int, ...]) -> Rows:
    """The same rows in another order."""
    rows = [(None, k, "x", values[at], 0.0, 1, None) for k, values in LONGS.items() for at in order]
    return {**random_rows(0, count=1), "a": rows}


def test_sums_of_longs_overflow_with_their_total_only(spark: SparkProcess) -> None:
    made = [queries_of(spark, of_longs(order)) for order in permutations(range(3))]
    for sql in WHOLE:
        first, *others = [each.rows_of(each.normal(sql)) for each in made]
        assert all(other == first for other in others), sql
    sums = made[0].rows_of(made[0].normal(WHOLE[0]))
    assert set(sums) == {
        (1, LARGEST - 4, repr((LARGEST - 4) / 3), 1),
        (2, 2**53 + 2, repr((2**53 + 2) / 3), 1),
        (3, None, repr((LARGEST + 2) / 3), 1),
    }
    for call in ("sum(v), sum(distinct n)", "sum(v) over (partition by k)"):
        grouped = "" if "over" in call else "group by k"
        with pytest.raises(PySparkException) as caught:
            made[0].rows_of(made[0].normal(f"select k, {call} from a {grouped}"))
        assert str(data_problem(caught.value)).startswith(f"{call.split(',')[0]} overflows bigint (")


def test_sums_of_longs_are_those_of_spark(queries: Queries) -> None:
    calls = (
        "sum(v), try_sum(v), avg(v), sum(v) filter (where n > 1), sum(distinct v), avg(distinct v) filter (where n > 1)"
    )
    for sql in (
        f"select k, {calls}, count(distinct z) from a group by k",
        f"select {calls} from a where n > 3",
        "select k, z, sum(v) over w, avg(v) over w, count(v) over w from a window w as (partition by k, z order by n)",
        "select k, n, sum(v) over (partition by k), rank() over (partition by k order by n), avg(v) over (partition by n) from a",
    ):
        assert queries.rows_of(queries.normal(sql)) == queries.plain(sql), sql


TIES = [
    ("max_by(z, n)", "max_by(z, struct(n, z))"),
    ("min_by(v, n)", "min_by(v, struct(n, v))"),
    ("max_by(z, v)", "max_by(z, if(v is null, null, struct(v, z)))"),
    ("min_by(z, v, 3) filter (where n > 1)", "min_by(z, if(v is null, null, struct(v, z)), 3) filter (where n > 1)"),
    ("listagg(z, '-') within group (order by n)", "listagg(z, '-') within group (order by n, z)"),
    ("string_agg(z) within group (order by n desc, v)", "string_agg(z) within group (order by n desc, v, z)"),
    (
        "listagg(distinct z, '-') within group (order by z desc)",
        "listagg(distinct z, '-') within group (order by z desc)",
    ),
]


@pytest.mark.parametrize("grouping", ["k", "rollup(k, z)"])
def test_ties_are_broken_by_what_is_chosen(queries: Queries, grouping: str) -> None:
    sql = f"select k, {{}} from a group by {grouping}"
    found = queries.rows_of(queries.normal(sql.format(named(tuple(call for call, _ in TIES)))))
    assert found == queries.plain(sql.format(named(tuple(completed for _, completed in TIES))))


WINDOWS = [
    ("max_by(z, n) over (partition by k)", "max_by(z, struct(n, z)) over (partition by k)"),
    ("min_by(z, n) over (partition by k order by v)", "min_by(z, struct(n, z)) over (partition by k order by v)"),
    (
        "collect_list(v) over (partition by k order by n rows between 1 preceding and current row)",
        "collect_list(v) over (partition by k order by n, z, v rows between 1 preceding and current row)",
    ),
    ("counter_diff(v) over (partition by k order by n)", "counter_diff(v) over (partition by k order by n, z, v)"),
    ("median(v) over (partition by k)", "median(v) over (partition by k)"),
    ("mode(v, true) over (partition by k order by n)", "mode(v, true) over (partition by k order by n)"),
    (
        "round(corr(v, n) over (partition by k order by n rows unbounded preceding), 6)",
        "round(corr(v, n) over (partition by k order by n, z, v rows unbounded preceding), 6)",
    ),
]


@pytest.mark.parametrize(("call", "completed"), WINDOWS)
def test_windows_see_rows_in_one_order(queries: Queries, call: str, completed: str) -> None:
    sql = "select k, n, v, z, {} c from a"
    assert queries.rows_of(queries.normal(sql.format(call))) == queries.plain(sql.format(completed))


def test_every_class_that_the_plan_decides_on_has_a_rule() -> None:
    assert expression_classes().decided_on_the_plan <= row_order_dependence.RULED
    assert row_order_dependence.RULED & set(expression_classes().refused) == set()


SETTLED = [
    "sort_array(collect_list(v))", "array_sort(collect_set(k))", "size(collect_set(v))", "array_max(collect_list(d))",
    "array_contains(collect_list(v), 1)", "exists(collect_list(v), x -> x > 1)", "array_sort(array_compact(collect_list(v)))",
    "sort_array(transform(collect_list(v), x -> x + 1))", "sort_array(array_distinct(filter(collect_list(v), x -> x > 1)))",
    "exists(collect_list(v), x -> x > 5000000000 or x is null)", "forall(collect_list(k), x -> x in ('x', 'y'))",
    "exists(collect_list(v), x -> x between 1 and 2)", "exists(collect_list(struct(k, v)), x -> x.k = 'a')",
    "forall(collect_list(k), x -> lower(coalesce(x, 'a')) = 'x')", "exists(collect_list(k), x -> startswith(x, 'a'))",
    "exists(collect_list(v), x -> if(x > 1, x = 2, case when x < 0 then true else false end))",
    "array_join(sort_array(collect_list(k)), '-')", "sort_array(flatten(collect_list(l)))", "collect_set(v) is not null",
    "size(nvl(collect_set(v), array()))", "size(ifnull(collect_set(k), array()))", "array_max(cast(collect_list(v) as array<double>))",
    "exists(collect_list(cast(v as decimal(12, 2))), x -> x > 100)", "size(coalesce(collect_set(v), array()))",
    "size(case when max(v) > 1 then collect_set(v) when max(v) > 0 then array(1) else collect_list(v) end)",
    "array_max(if(size(collect_set(k)) > 1, collect_list(v), array()))",
]  # fmt: skip


def test_lists_are_taken_where_their_order_does_not_matter(engine_call: EngineCall) -> None:
    result = validate(engine_call, f"select max(event_time) event_time, {named(tuple(SETTLED))} from a")
    assert result.problems == ()


REFUSED = [
    ("any_value(v)", "max_by"),
    ("first(v)", "first_value"),
    ("last(v, true)", "first_value"),
    ("collect_list(v)", "sort_array(collect_list(v))"),
    ("array_agg(v)[0]", "sort_array"),
    ("concat_ws(',', collect_set(k))", "sort_array(collect_set(k))"),
    ("array_sort(collect_list(v), (x, y) -> 0)", "sort_array"),
    ("size(case when collect_list(v)[0] > 1 then array(1) end)", "sort_array"),
    ("coalesce(collect_list(v), array())", "sort_array"),
    ("array_max(cast(collect_list(k) as array<double>))", "sort_array"),
    ("sort_array(try_cast(collect_list(k) as array<float>))", "sort_array"),
    ("array_min(flatten(cast(collect_list(array(k)) as array<array<double>>)))", "sort_array"),
    ("if(max(v) > 1, collect_list(v), array())[0]", "sort_array"),
    ("sort_array(transform(collect_list(v), (x, i) -> i))", "sort_array"),
    ("sort_array(transform(collect_list(d), x -> x * 0))", "sort_array"),
    ("array_contains(array(1), collect_list(v)[0])", "sort_array"),
    ("forall(collect_list(v), x -> 10 / x > 3)", "sort_array"),
    ("exists(collect_list(k), x -> cast(x as int) > 3)", "sort_array"),
    ("aggregate(collect_list(d), 0D, (s, x) -> s + x)", "sort_array"),
    ("listagg(k, ',')", "WITHIN GROUP"),
    ("mode(v)", "mode(.., true)"),
    ("max_by(map(k, v), v)", "row_number"),
    ("approx_percentile(v, 0.5)", "percentile"),
    ("kll_sketch_agg_double(d)", "percentile"),
    ("hll_sketch_agg(v)", "DISTINCT"),
    ("theta_sketch_agg(v)", "DISTINCT"),
    ("approx_top_k(v)", "row_number"),
    ("histogram_numeric(v, 3)", "width_bucket"),
    ("vector_sum(array(cast(d as float)))", "posexplode"),
    ("schema_of_variant_agg(parse_json(k))", "collect_list"),
]


def test_what_depends_on_the_order_of_rows_is_refused_with_its_place_and_a_way_around(engine_call: EngineCall) -> None:
    told = []
    for call, way in REFUSED:
        result = validate(engine_call, f"select max(event_time) event_time, k,\n  {call} x from a group by k")
        told += [
            (call, problem.rule, problem.line)
            for problem in result.problems
            if way in (problem.hint or "") and problem.column
        ]
    assert told == [(call, "function-order", 2) for call, _ in REFUSED]


def test_what_spark_fails_on_is_refused_at_once(engine_call: EngineCall) -> None:
    listed = "select max(event_time) event_time, k, count(distinct v) n,\n  listagg(k) within group (order by v) l"
    assert validate(engine_call, f"{listed} from a group by k").problems == ()
    (problem,) = validate(engine_call, f"{listed}, count(distinct d) m from a group by k").problems
    assert (problem.rule, problem.line, problem.column) == ("distinct-aggregate", 2, 3)
    assert "subquery" in (problem.hint or "")
    pivoted = (
        "select * from (select event_time, k, v from a)\npivot (listagg(k) within group (order by k) for v in (1 as x))"
    )
    (problem,) = validate(engine_call, pivoted).problems
    assert (problem.rule, problem.line, problem.column, bool(problem.hint)) == ("pivot", 2, 8, True)


OVER = [
    ("collect_list(v) over (partition by k)", "rows between"),
    ("collect_list(v) over (partition by k order by v range 1 preceding)", "sort_array"),
    ("collect_set(v) over (partition by k order by v range 1 preceding)[0]", "sort_array"),
    ("element_at(collect_set(v) over (partition by k), 1)", "sort_array"),
    ("sort_array(collect_set(d) over (partition by k))", "rows between"),
    ("any_value(v) over (partition by k)", "order by"),
]


def test_windows_that_say_no_order_are_refused(engine_call: EngineCall) -> None:
    for call, way in OVER:
        (problem,) = validate(engine_call, f"select event_time,\n  {call} x from a").problems
        assert (problem.line, way in (problem.hint or "")) == (2, True), problem
