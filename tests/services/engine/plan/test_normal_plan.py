"""Normal plans mean what the query means, against plain Spark over random rows.

Refusals are judged by their texts.
"""

from __future__ import annotations

import functools
import operator
import os
from collections import Counter
from collections.abc import Iterator

import pytest

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.plan.normal_plan import NormalQuery
from odfabric_engine_spark.spark.catalyst.plan_nodes import Plan, children, simple_name
from odfabric_engine_spark.spark.session import SparkProcess, interpret, request_session
from odfabric_engine_spark.sql.refusal import Refused
from tests.services.engine.plan.normalising import Queries, random_rows

pytestmark = pytest.mark.spark

SEED = int(os.environ.get("ODF_NORMAL_PLAN_SEED", "0"))
"""Without one, rows are always the same, and the longer lists are left out."""


@pytest.fixture(scope="module")
def queries(spark: SparkProcess) -> Queries:
    session = request_session(spark.session)
    interpret(session)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.leafNodeDefaultParallelism", "1")
    return Queries(session, spark.settings, random_rows(SEED))


SAME = [
    "select k, size(collect_set(v) over (partition by z)) n, array_max(collect_list(w) over (partition by z)) m from a join b using (k, z)",
    "select k, sort_array(l) s from (select k, collect_list(v) over (partition by z) l from a)",
    "select k, array_contains(s, v) f from (select k, v, collect_set(v) over (partition by z order by k rows 2 preceding) s from (select distinct k, v, z from a))",
    "select /*+ shuffle_hash(b), coalesce(2) */ a.k, b.w from a left join b on a.k = b.k",
    "select a.k, b.w, c.x from a, b, c where a.k = b.k and b.z = c.z and a.v + b.w > 2",
    "select k, v from a where v = 1 or k in (select k from b where w > 1)",
    "select k, v from a where k is not null and k not in (select k from b where k is not null and w > 1)",
    "select k, v from a where k is not null and k not in (select w from b where w is not null)",
    "select n, n in (select n from b where w > 1) f from a",
    "select k, v from a where k not in (select k from b)",
    "select k, v from a where v not in (select x from c where x is not null)",
    "select k, v from a where k not in (select k from b where w > 100)",
    "select k, v from a where v not in (select w from b where b.k = a.k)",
    "select k, v from a where v = 1 or k not in (select k from b where w > 1 and k is not null)",
    "select k, v from a where not (v = 1 and k in (select k from b where w > 1 and k is not null))",
    "select k, v from a where (n, z) not in (select n, z from b where w = 4)",
    "select k, not (k in (select k from b where k > 1) and v in (select w from b)) f from a",
    "select k, case when k not in (select k from b where k > 1) then 1 when z in (select z from b) then 2 end f from a",
    "select k, count(*) filter (where not (v in (select w from b where w > 0) or n = 1)) s from a group by k",
    "select k not in (select k from b where k > 1) f, count(*) c from a group by k not in (select k from b where k > 1)",
    "select not (k is null) f, count(*) c from a group by k is null",
    "select not (k > 1) f, v > 2 or k > 1 g, count(distinct v) c from a group by k > 1, v > 2 having not (k > 1)",
    "select not (k > 1) f, not (v = 2) g, grouping_id() i, max(if(k > 1, v, 0)) c from a group by cube (k > 1, v = 2)",
    "select k, cast(sum(d) as string) s, cast(avg(distinct d) as string) t, median(d) m from a where cast(d as string) = '-0.0' group by k",
    "select k, cast(sum(d) over (partition by k order by n range 1 preceding) as string) s from a where cast(d as string) = '-0.0'",
    "select k, regr_avgx(v, cast(n as decimal(9, 2))) over w x, regr_avgy(cast(n as decimal(9, 2)), v) over w y from a "
    "window w as (partition by k order by v range between 1 preceding and 1 following)",
    "select k from a where cast(z as int) not in (select k from b) and z rlike '^[0-9]+$'",
    "select a.k, b.w from a join b on a.k = b.k and b.w not in (select x from c where x > 7)",
    "select k from a where k not in (select max(k) from b group by z) and v not in (select x from c where x is not null) and v > (select min(w) from b)",
    "select k, v from a where exists (select 1 from b where w > 3)",
    "select k, v from a where exists (select 1 from a q where q.k = a.k and q.v > a.v)",
    "select k from a where exists (select 1 from b where b.k = a.k and exists (select 1 from c where c.z = b.z))",
    "select k from a where k in (select k from b where w > (select min(v) from a) and z in (select z from c))",
    "select k, v, (select max(w) from b where b.k = a.k) m from a",
    "select k, v, (select count(*) from b where b.k = a.k and b.w > a.v) m from a",
    "select k, (select count_if(w > 0) + 1 from b where b.k = a.k) m from a",
    "select k, (select sum(c) from (select count_if(w > 0) filter (where n > 1) c from b where b.k = a.k union all select x from c where c.z = a.z)) m from a",
    "select a.k, q.m, q.r from a left join lateral (select count_if(w > 1) m, regr_count(w, n) r from b where b.k = a.k having count_if(w > 9) = 0) q",
    "select k, sum(v) / (select sum(v) from a) s from a group by k",
    "select k, sum((select max(w) from b where b.k = a.k)) s from a group by k",
    "select (select max(w) from b where b.k = a.k) m, count(*) n from a group by (select max(w) from b where b.k = a.k)",
    "select k, exists (select 1 from b where b.k = a.k) e, count(*) c from a group by k",
    "select z, k kk, k + 1 m, k in (select k from b where b.z = a.z and k is not null) e, sum(v) s from a where k is not null group by k, z, k",
    "select a.k, b.w from a left join b on a.k = b.k and b.w > (select min(w) from b)",
    "with q as (select k, count(*) n from a group by k) select x.k, x.n - y.n d from q x join q y on x.k = y.n",
    "with q as (select k from a where v > 1) select k, w from b where k in (select k from q) or k in (select n from q, a)",
    "select k, z from a except all select k, z from b",
    "select k, z from a intersect all select k, z from b",
    "select k from b where k in (select k from a except select n from a)",
    "select k, (select count(*) from (select w from b where b.k = a.k except select x - 7 from c where c.z = a.z)) m from a",
    "select k from a where exists (select w from b where b.k = a.k intersect select x - 7 from c where c.z = a.z)",
    "select k from a where v in (select w from b where b.k = a.k except select x - 7 from c where c.z = a.z)",
    "select a.k, q.w from a, lateral (select w from b where b.k = a.k except select x - 7 from c where c.z = a.z) q",
    "select * from (select k, z, v from a) pivot (sum(v) for z in ('x', 'y'))",
    "select k, e from a, lateral explode(l) as t(e)",
    "select k, q.w from a join lateral (select a.v + 1 as w) q on q.w > 1",
    "select k, max(d) m, min(d) i, sum(d) s, avg(d) v, sum(distinct n) t from a where d < 3 group by k",
    "select k, sum(d) filter (where v > 1) s, avg(d) filter (where v > 100) e from a where d < 3 group by k",
    "select n, sum(n) filter (where v > 1) over (partition by k order by n) s, avg(n) filter (where z = 'x') over (partition by k) m from a",
    "select k, v, sum(v) over (partition by k order by v) s, count(*) over (partition by z) c from a",
    "select k, sum(d) over (partition by k order by n) s, avg(d) over (partition by k order by n) m, sum(v) over (partition by k order by n) t, rank() over (partition by k order by n) r from a where d < 3",
    "select n, sum(d) over (partition by k order by event_time range between interval 30 minutes preceding and current row) s, sum(v) over (partition by k order by event_time range between interval 30 minutes preceding and current row) t from a where d < 3",
    "select a.k, q.c, q.m from a, lateral (select count(*) c, max(w) m from b where b.k = a.k) q",
    "select a.k, q.w1 from a, lateral (select w, z from b where b.k = a.k order by w, z limit 1) q(w1, z1)",
    "select a.k, q.w1 from a left join lateral (select w, z from b where b.k = a.k order by w, z limit 2) q(w1, z1) on true",
    "select a.k, a.v, q.w from a join lateral (select w, z from b where b.k = a.k and b.w < a.v) q on q.z = a.z",
    "select a.k, q.w from a left join lateral (select w, n from b where b.k = a.k) q on q.n > a.v",
    "select a.k, q.n, q.t from a, lateral (select n, sum(w) t from b where b.k = a.k group by n) q",
    "select a.k, q.w, q.x from a, lateral (select w, x from (select w, a.z from b) b, lateral (select x from c where c.z = b.z) r) q where a.k = 1",
    "with q as (select k, collect_set(v) s from a group by k) select x.k, size(x.s) c, sort_array(y.s) t from q x join q y on x.k = y.k",
    "select k, max(size(s)) m from (select k, z, transform(collect_list(v), e -> e + 1) s from a group by k, z) group by k",
    "select k, n, size(collect_set(v) over w) c, sort_array(collect_list(z) filter (where v > 1) over w) l from a window w as (partition by k order by n range between 1 preceding and current row)",
    "select k, v, coalesce(v in (select w from b), false) f, coalesce(v not in (select w from b where w > 0), false) g from a",
    "select k, v, (v in (select w from b)) is true f, (v not in (select w from b where w > 0)) is not true g from a where (v not in (select w from b)) is not true",
    "select k, v from a where if(k > 1, v in (select w from b), v not in (select w from b where w > 0)) and not case when k = 3 then v in (select w from b) else false end",
    "select k, count_if(v in (select w from b)) c, count_if(z = 'x' and v not in (select w from b)) m from a group by k",
]  # fmt: skip
MORE = [
    "select a.k, a.v, b.w from a, b where a.k = b.k and a.v < b.w",
    "select k, v from a where k in (select k from b where w > 1)",
    "select n, v from a where n not in (select n from b where w > 1)",
    "select k, v from a where v = 1 or not exists (select 1 from b where b.k = a.k)",
    "select k, v from a where exists (select 1 from b where b.k = a.k and b.w > a.v)",
    "select k, v from a where v > (select avg(w) from b)",
    "select k, v from a where v not in (select w from b where b.k = a.k and b.n > a.n)",
    "select k, v from a where v not in (select w from b where b.n > a.n)",
    "select k, v from a where (k, z) not in (select k, z from b where w = 4 and b.n = a.n)",
    "select k, k not in (select k from b) f, n not in (select k from b where k > 1) g from a",
    "select k, if(k in (select k from b), 1, 2) f from a",
    "select z, count(distinct k) c from a where k not in (select k from b where k > 2) group by z",
    "select k, sum(case when v not in (select w from b where w > 0) then 1 else 0 end) s from a group by k",
    "select k, count(*) c from a group by k having sum(v) not in (select w from b where w > 0)",
    "select k from a where exists (select 1 from b where b.k = a.k and b.w not in (select x from c where c.z = b.z))",
    "select k, v from a q where v not in (select v from a where a.k = q.k and a.n <> q.n)",
    "select k from a where null not in (select k from b where k > 100) or null not in (select k from b where k > 1)",
    "select k, d from a where d not in (select d from a where v = 1 and not isnan(d))",
    "select a.k from a full join b on a.k = b.k where a.v not in (select w from b where w > 0)",
    "select k, (select count(*) from b where b.k <=> a.k group by b.k) m from a",
    "select k, (select max(w) from b where b.k = 1 group by b.k) m from a",
    "select k, (select w from b where b.k = a.k order by w desc nulls last limit 1 offset 2) m from a",
    "select k, (select w from b order by w desc limit 0) m from a",
    "select sum(v) s, count(*) c from (select v from a order by v desc, k offset 20)",
    "(select k from a order by k limit 3) union all (select n from b order by n desc limit 2)",
    "select k from a where k not in (select k from b where k is not null order by w, k limit 1)",
    "select k from a where exists (select k x from b where b.k = a.k order by w)",
    "select k from a where exists (select 1 from (select k from b order by w) q where q.k = a.k)",
    "select q.w from a, lateral (select w from b where b.k = a.k order by w) q",
    "select q.w, a.k from a, lateral (select w from b where b.k = a.k order by w limit 2 offset 1) q",
    "select * from (select k, v from a order by v limit all)",
    "select max(v) m from (select v from (select v, n from a order by v limit 10) order by v desc limit 4)",
    "from a |> order by v, k |> limit 4 |> aggregate sum(v) s",
    "select k, (select max(w) from b having count(*) > 100) m from a",
    "select count(*) / (select count(*) from b) s from a where k > 100",
    "select k, count(*) n from a group by k having sum(v) > (select min(w) from b)",
    "select distinct k, z, d from a",
    "select k, z from a except select k, z from b",
    "select k, z from a intersect select k, z from b",
    "select d, k from a except select cast(0 as double), k from b",
    "select * from (select n, k from a) unpivot (val for what in (n, k))",
    "select k, e from a left join lateral explode(l) as t(e) on true",
    "select k, e from a lateral view outer explode(l) t as e",
    "select k, z, count(*) n, grouping_id() g from a group by rollup(k, z)",
    "select k, percentile(v, 0.5) p, median(v) e, count(distinct z) c, mode() within group (order by v) o from a group by k",
    "select k, sort_array(collect_set(z)) s, listagg(z, ',') within group (order by z) l from a group by k",
    "select k, rank() over (partition by k order by v) r, dense_rank() over (partition by k order by v) q from a",
    "select k, cume_dist() over (partition by k order by v, z) r, percent_rank() over (order by v) p from a",
    "select k, max(d) over (partition by k) m, first_value(v) over (partition by k order by v) f from a",
    "select k, v, avg(v) over (partition by k order by n range between 1 preceding and current row) s from a",
    "select n, avg(d) filter (where v > 1) over (partition by k order by n range between 1 preceding and 1 following) s from a where d < 3",
    "select n, sum(d) filter (where v > 1) over (partition by k order by d) s from a where d < 3",
    "select n, sum(d) over (partition by k order by n range between current row and unbounded following) s from a where d < 3",
    "select k, z from a group by k, z having size(collect_set(v)) > 1 and array_contains(collect_list(n), 3L)",
    "select k, size(s) c, array_max(l) m from (select k, z, collect_set(v) s, collect_list(d) l from a group by k, z)",
    "select k, size(l) c, array_sort(l) t from (select k, filter(array_agg(struct(v, n)), e -> e.v > 1) l from a group by k)",
    "select * from (select k, z from a group by k, z order by size(collect_set(v)) desc, k, z limit 3)",
    "select k, n, array_max(collect_list(v) over (partition by k order by n)) m from a",
    "select q.k, count(a.v) n from (values (1), (2), (9)) q(k) left join a on q.k = a.k group by q.k",
    "select a.k, q.c from a, lateral (select count(*) c from b where b.w < a.v) q",
    "select a.k, q.w from a, lateral (select (select max(w) from b) w) q",
    "select a.k, q.w from a, lateral (select w from b where b.k = a.k union all select x from c where c.z = a.z) q",
    "select a.k, r.s from a, lateral (select w, z from b where b.k = a.k) q, lateral (select sum(x) s from c where c.z = q.z and c.x > a.v) r",
    "select a.k, q.w from a, lateral (select distinct w from b where b.k = a.k and exists (select 1 from c where c.z = b.z)) q",
    "select a.k, q.w, q.r from a, lateral (select w, rank() over (order by w) r from b where b.k = a.k) q",
    "select k, parse_json('{\"p\": [' || k || ']}'):p[0]::int x from a",
    "select k, z, v from (select *, row_number() over (partition by k order by v desc, z, n, event_time, d, l) r from a) where r <= 2",
]  # fmt: skip


@pytest.mark.parametrize("sql", [*SAME, *(MORE if SEED else ())])
def test_a_normal_plan_gives_the_rows_of_the_query(queries: Queries, sql: str) -> None:
    query = queries.normal(sql)
    assert not query.timed
    assert queries.rows_of(query) == queries.plain(sql)


_BY_KEY = "(select *, row_number() over (partition by k order by w desc{more}) r from b)"
TIES = [
    (
        "select a.k, q.w, q.z from a, lateral (select w, z from b where b.k = a.k order by w desc limit 2) q",
        f"select a.k, q.w, q.z from a join {_BY_KEY.format(more=', z')} q on q.k = a.k where r <= 2",
    ),
    (
        "select a.k, q.m from a left join lateral (select n + a.v as m from b where b.k = a.k order by w desc, z limit 3) q on q.m > 2",
        f"select a.k, q.n + a.v m from a left join {_BY_KEY.format(more=', z, n')} q on q.k = a.k and r <= 3 and q.n + a.v > 2",
    ),
    (
        "select sum(k) s, min(z) m from (select k, z, v from a order by v desc limit 7)",
        "select sum(k) s, min(z) m from (select k, z, row_number() over (order by v desc, k, z) r from a) where r <= 7",
    ),
    (
        "select a.k, q.w from a, lateral (select w, z from b where b.w < a.v order by z limit 1) q",
        "select k, w from (select a.*, b.w, row_number() over (partition by a.i order by b.z, b.w) r from "
        "(select *, row_number() over (order by k) i from a) a join b on b.w < a.v) where r = 1",
    ),
    (
        "select k, v, (select z from b where b.k = a.k order by w desc limit 1) m from a",
        f"select a.k, a.v, q.z from a left join {_BY_KEY.format(more=', z')} q on q.k = a.k and r = 1",
    ),
    (
        "select k, v from a where z = (select z from b order by w desc, n limit 1)",
        "select k, v from a where z = (select max(z) from (select z, row_number() over (order by w desc, n, z) r from b) where r = 1)",
    ),
    (
        "select k from a where v <= (select w + 1 from b where b.n = a.n order by w desc limit 1) or exists (select 1 from c where c.z = a.z limit 1)",
        "select k from a where v <= (select max(w) + 1 from b where b.n = a.n) or exists (select 1 from c where c.z = a.z)",
    ),
    (
        "select k, v, z from a qualify row_number() over (partition by k order by v desc) <= 2",
        "select k, v, z from (select *, row_number() over (partition by k order by v desc, z) r from a) where r <= 2",
    ),
    (
        "select k, sum(v) s, rank() over (order by sum(v) desc) r from a group by k qualify r <= 2",
        "select * from (select k, sum(v) s, rank() over (order by sum(v) desc) r from a group by k) where r <= 2",
    ),
    (
        "select *, row_number() over (partition by k order by v desc) r, rank() over (partition by k order by v desc) q from a",
        "select *, row_number() over (partition by k order by v desc, event_time, z, d, cast(d as string), n, l) r, "
        "rank() over (partition by k order by v desc) q from a",
    ),
    (
        "select z, k, lag(z) over (partition by k order by v) g, lead(n) over (partition by k order by v) e, n, v from a",
        "select z, k, lag(z) over (partition by k order by v, z, n) g, lead(n) over (partition by k order by v, z, n) e, n, v from a",
    ),
    (
        "select k, ntile(3) over (order by v) t, z, first_value(z) over (partition by k order by v) f, v from a",
        "select k, ntile(3) over (order by v, k, z) t, z, first_value(z) over (partition by k order by v, z) f, v from a",
    ),
    (
        "select k, n, sum(v) over (partition by k order by n rows between 2 preceding and current row) s, v from a",
        "select k, n, sum(v) over (partition by k order by n, v rows between 2 preceding and current row) s, v from a",
    ),
    (
        "select k, n, avg(d) over (partition by k order by n rows unbounded preceding) s, d from a",
        "select k, n, avg(d) over (partition by k order by n, d, cast(d as string) rows unbounded preceding) s, d from a",
    ),
    (
        "select k, n, sum(d) over (order by n) s from a where not isnan(d)",
        "select k, n, last_value(r) over (partition by n order by k, d, cast(d as string) rows between unbounded preceding and unbounded following) s "
        "from (select *, sum(d) over (order by n, k, d, cast(d as string) rows unbounded preceding) r from a where not isnan(d))",
    ),
    (
        "select n, avg(d) over (order by n range between 1 preceding and current row) s from a where not isnan(d)",
        "select n, aggregate(sort_array(l), 0D, (t, e) -> t + e) / size(l) s from "
        "(select n, collect_list(d) over (order by n range between 1 preceding and current row) l from a where not isnan(d))",
    ),
    (
        "select k, n, round(corr(v, n) over w, 9) c, round(stddev(v) filter (where z = 'x') over w, 9) s, round(regr_avgx(v, d) over w, 9) x, "
        "round(regr_sxx(n, d) over w, 9) y from a where d < 3 window w as (partition by k order by n range between 1 preceding and 1 following)",
        "select k, n, round(corr(v, n) over w, 9) c, round(stddev(if(z = 'x', v, null)) over w, 9) s, round(avg(if(v is null, null, d)) over w, 9) x, "
        "round(var_pop(if(n is null, null, d)) over w * count(if(n is null, null, d)) over w, 9) y "
        "from a where d < 3 window w as (partition by k order by n range between 1 preceding and 1 following)",
    ),
    (
        "select k, n, z, v, last_value(v) over w l, last(v, true) over w i, first_value(v) ignore nulls over w f, nth_value(v, 2) over w s, "
        "collect_list(v) over w c, rank() over w r from a window w as (partition by k order by n desc)",
        "select k, n, z, v, last_value(l) over p l, last_value(i) over p i, last_value(f) over p f, last_value(s) over p s, last_value(c) over p c, r from ("
        "select *, last_value(v) over w l, last(v, true) over w i, first_value(v) ignore nulls over w f, nth_value(v, 2) over w s, "
        "collect_list(v) over w c, rank() over (partition by k order by n desc) r from (select k, n, z, v from a) "
        "window w as (partition by k order by n desc, z, v rows unbounded preceding)) "
        "window p as (partition by k, n order by z, v rows between unbounded preceding and unbounded following)",
    ),
    (
        "select n, sum(d) over () s from a where not isnan(d)",
        "select n, sum(d) over (order by d, cast(d as string), n rows between unbounded preceding and unbounded following) s from a where not isnan(d)",
    ),
    (
        "select k, last_value(v) over (partition by k order by n rows between unbounded preceding and unbounded following) s from a",
        "select k, last_value(v) over (partition by k order by n, v rows between unbounded preceding and unbounded following) s from a",
    ),
    (
        "select n, v, row_number() over (partition by n order by v) r, row_number() over (order by v desc) q from a",
        "select n, v, r, row_number() over (order by v desc, n, r) q from (select n, v, row_number() over (partition by n order by v) r from a)",
    ),
    (
        "select z, k, v, row_number() over (partition by z order by v) r, row_number() over (partition by k order by v) q from a",
        "select *, row_number() over (partition by k order by v, z, r) q from "
        "(select z, k, v, row_number() over (partition by z order by v, k) r from a)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "completed"), TIES)
def test_ties_in_windows_are_broken_by_all_columns(queries: Queries, sql: str, completed: str) -> None:
    assert queries.rows_of(queries.normal(sql)) == queries.plain(completed)


def test_variances_do_not_depend_on_order(queries: Queries) -> None:
    names = ("var_pop", "var_samp", "stddev_pop", "stddev")
    calls = ", ".join(f"{name}(d) {name}" for name in names)
    sql = f"select k, {calls}, stddev(v) one from a where d < 3 and v < 2 or k is null group by k"
    found = sorted(queries.rows_of(queries.normal(sql)), key=str)
    judged = sorted(queries.plain(sql), key=str)
    assert len(found) == len(judged)
    for row, other in zip(found, judged, strict=True):
        assert [value is None for value in row] == [value is None for value in other]
        assert [float(value) for value in row[1:] if value] == pytest.approx(
            [float(value) for value in other[1:] if value], rel=1e-9, abs=1e-15, nan_ok=True
        )


def test_floats_are_added_in_ascending_order(queries: Queries) -> None:
    values = sorted(row[4] for row in queries.rows["a"] if row[4] is not None and row[4] == row[4])
    found = queries.rows_of(
        queries.normal(
            "select sum(d) s, avg(d) m, sum(d) filter (where v > 100) e, median(distinct n) > 9 o from a where not isnan(d)"
        )
    )
    total = functools.reduce(operator.add, values)
    assert list(found) == [(repr(total), repr(total / len(values)), None, False)]
    assert total != functools.reduce(operator.add, reversed(values)), "the rows cannot show an order"


LATERAL = (
    "lateral (select w, z bz from b where b.k = a.k and b.event_time {less} a.event_time "
    "order by b.event_time desc{more} limit 1) q"
)
TIMED = [
    (
        "select window.start s, k, count(*) c, sum(v) t from a group by window(event_time, '1 hour'), k having {closed}",
        "window.end",
    ),
    ("select k, count(*) c from a group by window(event_time, '2 hours', '1 hour'), k having {closed}", "window.end"),
    (
        "select session_window.start s, k, count(*) c from a group by session_window(event_time, '40 minutes'), k having {closed}",
        "session_window.end",
    ),
    (
        "select session_window.end s, count(*) c from a "
        "group by session_window(event_time, case when k = 1 then '30 minutes' else '2 hours' end) having {closed}",
        "session_window.end",
    ),
    (
        "select w.start s, sum(c) c from (select window(t, '2 hours') w, c from (select window.start t, k, count(*) c from a "
        "group by window(event_time, '1 hour'), k having {closed})) group by w having w.end <= {mark}",
        "window.end",
    ),
    (
        "select x.s, x.c, y.c d from (select window.start s, count(*) c from a group by window(event_time, '1 hour') "
        "having {closed}) x left join (select window.start s, count(*) c from b group by window(event_time, '1 hour') "
        "having window.end <= {mark}) y on x.s = y.s",
        "window.end",
    ),
    (
        "select window.start s, count(*) c from (select event_time t from a union all select b.event_time from b join c "
        "on b.z = c.z) group by window(t, '1 hour') having {closed}",
        "window.end",
    ),
    (f"select a.*, q.w, q.bz from a join {LATERAL} where {{closed}}", "a.event_time"),
    (f"select a.*, q.w, q.bz from a left join {LATERAL} on true where {{closed}}", "a.event_time"),
    (f"select a.k, q.w from a, {LATERAL.replace('{less}', '<')} where a.v < 5 and {{closed}}", "a.event_time"),
    (
        f"select window.start s, count(*) c, sum(w) t from (select a.event_time, q.w from a left join {LATERAL} on true) "
        "group by window(event_time, '1 hour') having {closed}",
        "window.end",
    ),
    (
        f"select a.k, q.w, r.x from a join {LATERAL} join lateral (select b.n x from b where b.k = a.k and "
        "b.event_time <= a.event_time order by b.event_time desc{more} limit 1) r where {closed}",
        "a.event_time",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("template", "time"), TIMED)
def test_what_waits_for_the_watermark_is_let_through_by_it(queries: Queries, template: str, time: str) -> None:
    query = waiting(queries, template)
    for mark, text in [(2, "timestamp'1970-01-01 01:00:00'"), (0, "timestamp'1970-01-01 00:00:00'")][
        : 2 if SEED else 1
    ]:
        judged = template.format(closed=f"{time} <= {text}", mark=text, less="<=", more=", event_time, z, w, n")
        found = queries.rows_of(query, watermark=mark)
        assert found == queries.plain(judged)
        assert found


WAITING = [
    ("b.event_time between a.event_time and a.event_time + interval '1' hour", "a.event_time + interval '1' hour"),
    ("b.event_time <= a.event_time", "a.event_time"),
    ("a.event_time - interval 30 minutes > b.event_time", "a.event_time - interval 30 minutes"),
    ("b.event_time - interval '1' hour <= a.event_time", "a.event_time + interval '1' hour"),
    ("a.event_time between b.event_time - interval 90 minutes and b.event_time", "a.event_time + interval 90 minutes"),
    (
        "b.event_time < date_add(a.event_time, 1) and b.event_time < a.event_time + interval 1 day",
        "a.event_time + interval 1 day",
    ),
]
"""Conditions that say by when a partner of a row of `a` must have come, and when that is."""


@pytest.mark.parametrize(("condition", "instant"), WAITING)
def test_rows_without_a_partner_wait_until_none_can_come(queries: Queries, condition: str, instant: str) -> None:
    outer = f"select a.event_time, a.k, b.w from a left join b on a.k = b.k and {condition}"
    swapped = f"select a.event_time, a.k, b.w from b right join a on a.k = b.k and {condition}"
    anti = f"select a.event_time, a.k, a.v from a left anti join b on a.k = b.k and {condition}"
    for watermark in (-2, 0, 2):
        reached = f"a.event_time is null or {instant} <= timestamp_micros({watermark * 1_800_000_000})"
        for sql, where in (
            (outer, f"where b.event_time is not null or {reached}"),
            (swapped, f"where b.event_time is not null or {reached}"),
            (anti, f"where {reached}"),
        ):
            query = queries.normal(sql)
            assert query.timed
            assert queries.rows_of(query, watermark=watermark) == queries.plain(f"{sql} {where}")


@pytest.mark.parametrize(
    "condition",
    [
        "b.event_time >= a.event_time",
        "b.event_time = a.event_time",
        "b.event_time < a.event_time + interval '1' month",
        "date(b.event_time) <= date(a.event_time)",
        "b.event_time <= a.event_time + a.n * interval '1' hour",
        "b.event_time <= timestamp'2024-01-01 00:00:00'",
        "(b.event_time <= a.event_time or b.w = 1)",
    ],
)
def test_other_outer_joins_do_not_wait(queries: Queries, condition: str) -> None:
    sql = f"select a.event_time, a.k, b.w from a left join b on a.k = b.k and {condition}"
    query = queries.normal(sql)
    assert not query.timed
    assert queries.rows_of(query) == queries.plain(sql)


def test_nothing_passes_while_there_is_no_watermark(queries: Queries) -> None:
    for template, _ in (TIMED[0], TIMED[7]):
        assert not queries.rows_of(waiting(queries, template), watermark=None)


def waiting(queries: Queries, template: str) -> NormalQuery:
    """The query itself, which says nothing of watermarks."""
    text = template.format(closed="true", mark="null", less="<=", more="")
    for condition in ("having w.end <= null", "having window.end <= null"):
        text = text.replace(condition, "")
    query = queries.normal(text, temporal={"b": ("k",)})
    assert query.timed
    return query


def test_a_step_can_be_a_temporal_table_with_times_in_days(queries: Queries) -> None:
    temporal_join = "lateral (select w from q where q.w > 0 and q.t <= a.event_time and a.k = q.key order by q.t desc, q.w desc limit 1) x"
    step = "select k as key, event_time as t, w from b where n > 1"
    query = queries.normal(
        f"select a.k, x.w from a join {temporal_join} on x.w < 4", ("q", step), temporal={"q": ("key",)}
    )
    judged = f"with q as ({step}) select a.k, x.w from a join {temporal_join} on x.w < 4 where event_time <= timestamp'1970-01-01 01:00:00'"
    assert queries.rows_of(query, watermark=2) == queries.plain(judged)


def test_windows_over_other_columns_do_not_wait(queries: Queries) -> None:
    sql = "select window.start s, count(*) c from (select date_trunc('hour', event_time) t from a) group by window(t, '1 hour')"
    query = queries.normal(sql)
    assert not query.timed
    assert queries.rows_of(query) == queries.plain(sql)


REFUSED = [
    ("select k,\n (k in (select k from b)) is null f from a", "not-in", 2, 5),
    ("select k from a where coalesce(k in (select k from b where k > 1), true)", "not-in", 1, 34),
    ("select k from a where z is not null and (try_cast(z as int) in (select n from b)) = (v = 1)", "not-in", 1, 61),
    ("select k from a where z is not null and (cast(try_cast(z as int) as bigint) in (select n from b)) = (v = 1)", "not-in", 1, 77),
    ("select k from a where z is not null and (cast(parse_json('null') as int) in (select n from b)) = (v = 1)", "not-in", 1, 74),
    ("select k, ((n, z) in (select n, z from b)) = (v = 1) f from a", "not-in", 1, 19),
    ("select k, coalesce(v in (select w from b), true) f from a", "not-in", 1, 22),
    ("select a.k, b.w from a left join b on a.k = b.k and a.v not in (select x from c where x > 1)", "not-in", 1, 57),
    ("select k, (select w from b limit 1) w from a", "limit", 1, 28),
    ("select k, (select mp from m where m.k = a.k) is null w from a", "subquery-rows", 1, 11),
    ("select k, v from a\norder by v limit 3", "limit", 2, 1),
    ("select k, row_number() over (partition by k) r from a", "window-function-frame-not-ordered", None, None),
    ("select k, sum(v) over (partition by k rows between 1 preceding and current row) s from a", "function-order", 1, 11),
    ("select k, first_value(v) over (order by n range between unbounded preceding and 1 preceding) s from a", "function-order", 1, 11),
    ("select k, last_value(v) over (order by n range between current row and 1 following) s from a", "function-order", 1, 11),
    ("select k, first_value(v) ignore nulls over (order by n range between current row and unbounded following) s from a", "function-order", 1, 11),
    ("select k, size(collect_list(mp) over (order by k range between 1 preceding and current row)) s from m", "function-order", 1, 16),
    ("select *, row_number() over (partition by k order by event_time) r from m", "function-order", 1, 1),
    ("select mp, count(*) c from m group by mp", "group-type", 1, 39),
    ("select op, count(*) c from a group by op", "system-column", 1, 39),
    ("select k from a where exists (select `offset` from b)", "system-column", 1, 38),
    ("select /*+ lateness('1 day') */ k, count(*) c from a group by k", "hint", 1, 8),
    ("select q.w from a, lateral (select x w from c where c.z = a.z limit 2) q", "limit", 1, 63),
    ("select q.x from a, lateral (select m.k x, mp from m where m.k = a.k order by m.k limit 2) q", "function-order", 1, 69),
    ("select k from a where k in (select k from b limit 2)", "limit", 1, 45),
    ("select * from (select * from (select v, k from a order by v) limit 3)", "limit", 1, 62),
    ("select * from (select v from a order by v limit 3 offset 1) order by v", "order-by", 1, 61),
    ("with q as (select v from a order by v limit 3) select v from q order by v limit 1", "limit", 1, 64),
    ("with b as (select * from a) select k from b", "relation", 1, 1),
    ("select k, exists (select 1 from b where b.k = a.k) e, count(*) c from a group by rollup(k)", "query-form", 1, 11),
    ("select a.k, q.w, q.s from a, lateral (select w, s from (select a.n + w w, b.z from b where b.k = a.k) b, lateral (select sum(x) s from c where c.z = b.z and c.x > b.w) r) q", "subquery", 1, 115),
    ("select k, v from a where exists (select 1 from (select z, w + a.n u from b where b.k = a.k) q where u < (select count(*) + 2 from c where c.z = q.z and c.x > q.u))", "subquery", 1, 106),
    ("select k, v from (select k, v, map(coalesce(k, 0), v) xm from a) where (select sum(w) from b where xm[1] > b.k) > 2", "subquery", 1, 73),
    ("select x.k, q.w from (select k, map(coalesce(k, 0), v) xm from a) x, lateral (select sum(w) w from b where xm[1] = b.k) q", "subquery", 1, 79),
    ("select k from (select k, map(coalesce(k, 0), v) xm from a) x where exists (select sum(w) w from b where xm[1] > b.k)", "subquery", 1, 76),
]  # fmt: skip


@pytest.mark.parametrize(("sql", "rule", "line", "column"), REFUSED)
def test_what_has_no_normal_form_is_refused_with_its_place(
    queries: Queries, sql: str, rule: str, line: int | None, column: int | None
) -> None:
    problem = refused(queries, sql)
    assert (problem.place.rule, problem.place.line, problem.place.column) == (rule, line, column)
    assert problem.message


LOOKUPS = [
    (
        "b.event_time <= a.event_time order by b.event_time",
        "cast(b.event_time as date) <= a.event_time order by cast(b.event_time as date)",
    ),
    ("b.event_time <= a.event_time", "b.event_time <= cast(a.event_time as date)"),
    ("", ""),
    ("order by b.event_time desc limit 1", "order by b.event_time desc limit 2"),
    ("b.event_time desc", "b.event_time"),
    ("b.event_time desc", "b.w desc"),
    ("b.k = a.k", "b.k = a.k and b.z = a.z"),
    ("b.k = a.k", "b.z = a.z"),
    ("b.k = a.k", "b.k > a.k"),
    ("b.event_time <= a.event_time", "b.event_time >= a.event_time"),
    ("b.event_time <= a.event_time", "b.w <= a.v"),
    ("b.event_time <= a.event_time", "b.event_time <= date_trunc('day', a.event_time)"),
    ("select w", "select w + a.v as w"),
    ("from b", "from c as b"),
]


@pytest.mark.parametrize(("text", "other"), LOOKUPS)
def test_a_look_up_has_one_form(queries: Queries, text: str, other: str) -> None:
    temporal_join = "lateral (select w from b where b.k = a.k and b.event_time <= a.event_time order by b.event_time desc limit 1) q"
    sql = f"select a.k, q.w from a join {temporal_join}"
    if not text:
        assert queries.normal(sql, temporal={"b": ("k",)}).timed
        return
    assert text in sql
    problem = refused(queries, sql.replace(text, other))
    assert problem.place.rule in ("temporal-join", "lateral", "limit", "unresolved-column")
    assert problem.hint


def test_only_a_temporal_table_is_waited_for(queries: Queries) -> None:
    temporal_join = "lateral (select w from b where b.k = a.k and b.event_time <= a.event_time order by b.event_time desc limit 1) q"
    sql = f"select a.k, q.w from a join {temporal_join}"
    assert queries.normal(sql, temporal={"b": ("k",)}).timed
    assert not queries.normal(sql).timed
    assert not queries.normal(sql, temporal={"c": ("z",)}).timed


def test_conditions_that_can_fail_stay_behind_their_guards(queries: Queries) -> None:
    sql = "select a.k, b.w from a, b where a.z = '1' and cast(a.z as int) = b.k and a.n = b.n"
    assert queries.rows_of(queries.normal(sql)) == queries.plain(sql) == Counter()
    (join,) = joins(queries.normal(sql).plan)
    guarded, _ = (str(side) for side in children(join))
    assert "CAST" not in guarded.upper()
    assert "(z#" in guarded.replace("isnotnull(z#", "")


def refused(queries: Queries, sql: str) -> InvalidQuery:
    with pytest.raises(Refused) as caught:
        queries.normal(sql, temporal={"b": ("k",)})
    return caught.value.problems[0]


def joins(plan: Plan) -> Iterator[Plan]:
    if simple_name(plan) == "Join":
        yield plan
    for child in children(plan):
        yield from joins(child)
