"""Named shapes of queries: every combination that once failed or is common.

Inputs: a (k, z, v), b (k, z, w), c (z, x), each with an event time. The text is that of `general_dialects`.
"""

from __future__ import annotations

from random import Random

from tests.services.engine.laws.grammar.aggregate_calls import BOTH_KNOW, LISTS, MOMENTS, greatest_by, listed, quantiles
from tests.services.engine.laws.grammar.dialects import END_OF_SESSION, either, final, judged, step, then
from tests.services.engine.laws.grammar.general_cases import GeneralCase, GeneralQuery, Table, case_of
from tests.services.engine.laws.shapes.list_shapes import OF_LISTS
from tests.services.engine.laws.shapes.named_shape import LAST, Shape, groups
from tests.services.engine.laws.shapes.null_shapes import OF_NULLS
from tests.services.engine.laws.shapes.subquery_shapes import SUBQUERIES
from tests.services.engine.laws.shapes.temporal_join_shapes import LOOKUPS, OF_B, VERSION
from tests.services.engine.laws.shapes.window_shapes import OVER_WINDOWS

_COLUMNS = {
    "a": {"k": "int", "z": "string", "v": "int"},
    "b": {"k": "int", "z": "string", "w": "int"},
    "c": {"z": "string", "x": "int"},
}
SAME = either("<=>", "IS NOT DISTINCT FROM")
SEMI, ANTI = either("LEFT SEMI JOIN", "SEMI JOIN"), either("LEFT ANTI JOIN", "ANTI JOIN")
LATER = "greatest(a.event_time, b.event_time) AS event_time"
CONSTANT = "TIMESTAMP '2020-01-01 00:00:00' AS event_time"
DAILY = "date_trunc('DAY', event_time) AS event_time"


def shape_case(name: str, number: int, history: int = 0) -> GeneralCase:
    """A case of a shape; `history` chooses another changelog for the same query."""
    r = Random(f"{name} {number}")
    shape = SHAPES[name]
    tables = [Table(alias, {**_COLUMNS[alias], **shape.more}, shape.times) for alias in shape.inputs]
    query = GeneralQuery(
        name,
        shape.text,
        (name,),
        steps=shape.steps,
        temporal=shape.temporal,
        identity=shape.identity,
        one_row_each=shape.one_row_each,
        final_only=shape.final_only,
        row_wise=shape.row_wise,
    )
    return case_of(Random(f"{name} {number} {history}") if history else r, query, tables)


def _tumbling(source: str, *, columns: str = "q.k", calls: str = "count(*) AS n, sum(q.v) AS s") -> str:
    """Hours of a relation, per some columns of it."""
    # A row without a time has no window in Spark.
    start_of_hour = "time_bucket(INTERVAL 1 HOUR, CAST(h.event_time AS TIMESTAMP)) AS w0"
    buckets = f"(SELECT h.*, {start_of_hour} FROM {source} h WHERE h.event_time IS NOT NULL) q"
    start = either("window.start", "q.w0")
    group = either("window(q.event_time, '1 hour')", "q.w0")
    closing = final("HAVING", "window.end", "q.w0 + INTERVAL 1 HOUR")
    listed = f", {columns}" if columns else ""
    return (
        f"SELECT {start} AS event_time{listed}, {calls} FROM {either(f'{source} q', buckets)} "
        f"GROUP BY {group}{listed} {closing}"
    )


_JOINS = {
    "inner": Shape("ab", f"SELECT {LATER}, a.k, a.v, b.w FROM a JOIN b ON a.k = b.k", ("k",)),
    "comma join": Shape("ab", f"SELECT {LATER}, a.k, a.v, b.w FROM a, b WHERE a.k = b.k AND a.v < b.w"),
    "unrelated first": Shape("abc", f"SELECT {LATER}, a.k, a.v, b.w, c.x FROM b, c, a WHERE a.k = b.k AND a.z = c.z"),
    "or, one key": Shape("ab", f"SELECT {LATER}, v, w FROM a, b WHERE a.k = b.k AND a.v > 1 OR a.k = b.k AND b.w > 0"),
    "join on two keys and a rest": Shape(
        "ab", f"SELECT {LATER}, a.k, a.z, a.v, b.w FROM a JOIN b ON a.k = b.k AND a.z = b.z AND a.v <> b.w"
    ),
    "left": Shape("ab", "SELECT a.event_time, a.k, a.v, b.w FROM a LEFT JOIN b ON a.k = b.k", ("k",)),
    "left with a rest": Shape(
        "ab",
        "SELECT a.event_time, a.k, a.v, b.w FROM a LEFT JOIN b ON a.k = b.k AND a.v < b.w AND a.z = 'x'",
    ),
    "left, grouped by the right key": groups(
        "ab",
        f"SELECT {LAST}, b.k, sum(DISTINCT a.v) AS n, sum(a.v) AS s FROM a LEFT JOIN b ON a.k = b.k GROUP BY b.k",
        "k",
    ),
    "right": Shape("ab", "SELECT b.event_time, a.v, b.k, b.w FROM a RIGHT JOIN b ON a.k = b.k"),
    "full": Shape(
        "ab",
        "SELECT coalesce(a.event_time, b.event_time) AS event_time, a.k AS ak, b.k AS bk, a.v, b.w FROM a FULL JOIN b ON a.k = b.k",
    ),
    "full using, grouped": groups(
        "ab",
        f"SELECT {LAST}, k, count(DISTINCT v) AS n, sum(v) AS s, sum(w) AS sw FROM a FULL JOIN b USING (k) GROUP BY k",
        "k",
    ),
    "full on an expression": groups(
        "ab",
        f"SELECT {LAST}, coalesce(coalesce(a.k, 0), b.k) AS kk, sum(DISTINCT a.v) AS n, count(*) AS c FROM a FULL JOIN b ON coalesce(a.k, 0) = b.k "
        "GROUP BY coalesce(coalesce(a.k, 0), b.k)",
        "kk",
    ),
    "full on two keys": groups(
        "ab",
        f"SELECT {LAST}, coalesce(a.k, b.k) AS k, coalesce(a.z, b.z) AS z, sum(DISTINCT b.w) AS n FROM a FULL JOIN b "
        "ON a.k = b.k AND a.z = b.z GROUP BY coalesce(a.k, b.k), coalesce(a.z, b.z)",
        "k",
        "z",
    ),
    "full, grouped by the left key": groups(
        "ab",
        f"SELECT {LAST}, a.k, count(DISTINCT b.w) AS n, count(*) AS c FROM a FULL JOIN b ON a.k = b.k GROUP BY a.k",
        "k",
    ),
    "null-safe": Shape("ab", f"SELECT a.event_time, a.k, a.v, b.w FROM a LEFT JOIN b ON a.k {SAME} b.k"),
    "semi": Shape("ab", f"SELECT a.event_time, a.k, a.v FROM a {SEMI} b ON a.k = b.k", ("k",)),
    "anti": Shape("ab", f"SELECT a.event_time, a.k, a.v FROM a {ANTI} b ON a.k = b.k"),
    "anti by null": Shape("ab", "SELECT a.event_time, a.k, a.v FROM a LEFT JOIN b ON a.k = b.k WHERE b.k IS NULL"),
    "chain of joins": Shape(
        "abc", f"SELECT {LATER}, a.k, a.v, b.w, c.x FROM a JOIN b ON a.k = b.k JOIN c ON b.z = c.z"
    ),
    "star": groups(
        "ac", f"SELECT {LAST}, c.x, count(*) AS n, sum(a.v) AS s FROM a JOIN c ON a.z = c.z GROUP BY c.x", "x"
    ),
    "self-join": Shape("a", "SELECT l.event_time, l.k, l.v, r.v AS rv FROM a l JOIN a r ON l.k = r.v"),
    "self-join, grouped": groups(
        "a",
        "SELECT max(l.event_time) AS event_time, l.k, count(DISTINCT r.z) AS n, max(r.z) AS z FROM a l LEFT JOIN a r ON l.k = r.v "
        "GROUP BY l.k",
        "k",
    ),
    "not equal": Shape("ab", f"SELECT {LATER}, a.k, a.v, b.w FROM a JOIN b ON a.v < b.w"),
    "cross": Shape("ac", "SELECT a.event_time, a.k, c.x FROM a CROSS JOIN c"),
    "join by hours": groups(
        "ab",
        "SELECT date_trunc('HOUR', a.event_time) AS event_time, count(*) AS n FROM a JOIN b "
        "ON date_trunc('HOUR', a.event_time) = date_trunc('HOUR', b.event_time) GROUP BY date_trunc('HOUR', a.event_time)",
        "event_time",
    ),
    "interval": Shape(
        "ab",
        "SELECT a.event_time, a.k, a.v, b.w FROM a LEFT JOIN b ON a.k = b.k AND b.event_time BETWEEN a.event_time "
        "AND a.event_time + INTERVAL 1 HOUR"
        + final(
            " WHERE b.event_time IS NOT NULL OR a.event_time IS NULL OR",
            "CAST(a.event_time AS TIMESTAMP) + INTERVAL 1 HOUR",
        ),
    ),
    "interval, other side": Shape(
        "ab",
        "SELECT b.event_time, a.v, b.k, b.w FROM a RIGHT JOIN b ON a.k = b.k AND a.event_time >= b.event_time - INTERVAL 1 HOUR "
        "AND a.event_time - INTERVAL 30 MINUTE < b.event_time"
        + final(
            " WHERE a.event_time IS NOT NULL OR b.event_time IS NULL OR",
            "CAST(b.event_time AS TIMESTAMP) + INTERVAL 30 MINUTE",
        ),
    ),
    "interval, both sides": Shape(
        "ab",
        "SELECT coalesce(a.event_time, b.event_time) AS event_time, a.k AS ak, b.k AS bk, a.v, b.w FROM a FULL JOIN b ON a.k = b.k "
        "AND a.event_time BETWEEN b.event_time - INTERVAL 2 HOUR AND b.event_time + INTERVAL 1 HOUR"
        + final(
            " WHERE (b.event_time IS NOT NULL OR a.event_time IS NULL OR",
            "CAST(a.event_time AS TIMESTAMP) + INTERVAL 2 HOUR",
        )
        + final(
            ") AND (a.event_time IS NOT NULL OR b.event_time IS NULL OR",
            "CAST(b.event_time AS TIMESTAMP) + INTERVAL 1 HOUR",
        )
        + judged(")"),
    ),
    "nothing within an hour": Shape(
        "ab",
        "SELECT event_time, k, v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND b.event_time >= a.event_time "
        "AND b.event_time < a.event_time + INTERVAL 1 HOUR)"
        + final(" AND (event_time IS NULL OR", "CAST(event_time AS TIMESTAMP) + INTERVAL 1 HOUR")
        + judged(")"),
    ),
    "join with a guarded division": Shape(
        "ab",
        f"SELECT a.event_time, a.k, q.w FROM a JOIN (SELECT k, w, {either('12 DIV w', '12 // w')} AS share FROM b WHERE w <> 0) q "
        "ON a.v = q.share",
    ),
    "group by a guarded cast": groups(
        "a",
        f"SELECT {LAST}, {either('CAST(a.z AS INT)', 'TRY_CAST(a.z AS INT)')} AS number, count(*) AS n FROM a "
        f"WHERE {either('a.z RLIKE', 'regexp_matches(a.z,')} '^[0-9]$'{either('', ')')} "
        f"GROUP BY {either('CAST(a.z AS INT)', 'TRY_CAST(a.z AS INT)')}",
        "number",
    ),
    "constants on the left": groups(
        "a",
        f"SELECT {LAST}, q.k, count(a.v) AS n FROM (VALUES (1), (2), (9)) q(k) LEFT JOIN a ON q.k = a.k GROUP BY q.k",
        "k",
    ),
    "aggregates joined": groups(
        "ab",
        "WITH l AS (SELECT k, max(event_time) AS event_time, count(*) AS n FROM a GROUP BY k), "
        "r AS (SELECT k, sum(w) AS s FROM b GROUP BY k) SELECT l.event_time, l.k, n, s FROM l LEFT JOIN r ON l.k = r.k",
        "k",
    ),
    "one aggregate twice": Shape(
        "a",
        "WITH q AS (SELECT k, z, max(event_time) AS event_time, sum(v) AS s FROM a GROUP BY k, z) "
        "SELECT l.event_time, l.k, l.z, r.z AS rz, l.s - r.s AS d FROM q l JOIN q r ON l.k = r.k AND l.z < r.z",
    ),
}

_GROUPS = {
    "having": groups(
        "a",
        f"SELECT {LAST}, k, z, count(*) AS n, sum(v) AS s, avg(v) AS m FROM a GROUP BY k, z HAVING count(*) > 1",
        "k",
        "z",
    ),
    "extremes": groups(
        "a", f"SELECT {LAST}, k, min(v) AS lo, max(v) AS hi, count(DISTINCT z) AS n FROM a GROUP BY k", "k"
    ),
    "hidden key": Shape("a", f"SELECT {LAST}, count(*) AS n, sum(v) AS s FROM a GROUP BY k"),
    "distinct": Shape("a", f"SELECT DISTINCT {DAILY}, k, z FROM a"),
    "aggregate again": groups(
        "a",
        "SELECT max(event_time) AS event_time, k, max(n) AS m, sum(DISTINCT n) AS c FROM "
        "(SELECT max(event_time) AS event_time, k, z, count(*) AS n FROM a GROUP BY k, z) q GROUP BY k",
        "k",
    ),
    "aggregate again by another key": groups(
        "a",
        "SELECT max(event_time) AS event_time, n, count(*) AS c FROM "
        "(SELECT max(event_time) AS event_time, k, count(*) AS n FROM a GROUP BY k) q GROUP BY n",
        "n",
    ),
    "by hours": groups(
        "a",
        "SELECT date_trunc('HOUR', event_time) AS event_time, k, count(*) AS n FROM a GROUP BY date_trunc('HOUR', event_time), k",
        "event_time",
        "k",
    ),
    "by hours, then days": groups(
        "a",
        "SELECT date_trunc('DAY', h) AS event_time, max(n) AS m FROM "
        "(SELECT date_trunc('HOUR', event_time) AS h, count(*) AS n FROM a GROUP BY date_trunc('HOUR', event_time)) q "
        "GROUP BY date_trunc('DAY', h)",
        "event_time",
    ),
    "pieces": groups(
        "a",
        either(
            "SELECT max(event_time) AS event_time, e, count(*) AS n FROM "
            "(SELECT event_time, explode(array(k, v)) AS e FROM a) q GROUP BY e",
            "SELECT max(event_time) AS event_time, e, count(*) AS n FROM "
            "(SELECT event_time, k AS e FROM a UNION ALL SELECT event_time, v FROM a) q GROUP BY e",
        ),
        "e",
    ),
    "rollup": Shape(
        "a",
        f"SELECT {LAST}, k, z, count(DISTINCT v) AS n, CAST(grouping_id({either('', 'k, z')}) AS INT) AS g FROM a "
        f"GROUP BY ROLLUP (k, z) {either('', 'HAVING count(*) > 0')}",
        ("k", "z", "g"),
        one_row_each=True,
    ),
    "global": groups("a", f"SELECT {LAST}, count(*) AS n, max(v) AS m FROM a"),
    "global over an aggregate": groups(
        "a",
        "SELECT max(event_time) AS event_time, max(n) AS m FROM "
        "(SELECT max(event_time) AS event_time, k, count(*) AS n FROM a GROUP BY k) q",
    ),
    "pivot": Shape(
        "a",
        either(
            f"SELECT * FROM (SELECT {DAILY}, k, z, v FROM a) PIVOT (sum(v) FOR z IN ('x' AS sx, 'y' AS sy))",
            f"SELECT event_time, k, sum(v) FILTER (WHERE z = 'x') AS sx, sum(v) FILTER (WHERE z = 'y') AS sy "
            f"FROM (SELECT {DAILY}, k, z, v FROM a) q GROUP BY event_time, k",
        ),
    ),
    "filtered calls": groups(
        "a", f"SELECT {LAST}, k, sum(v) FILTER (WHERE z = 'x') AS sx, bool_or(v > 3) AS b FROM a GROUP BY k", "k"
    ),
    "doubles": groups(
        "a",
        f"SELECT {LAST}, k, sum(d) AS s, avg(d) AS m, min(d) AS lo, count(DISTINCT d) AS n FROM a GROUP BY k",
        "k",
        more={"d": "double"},
    ),
    "longs beside distinct values": groups(
        "a",
        f"SELECT {LAST}, k, sum(h) AS s, avg(h) AS m, avg(DISTINCT h) AS d, sum(h) FILTER (WHERE v > 0) AS p, "
        "count(DISTINCT h) AS n FROM a GROUP BY k",
        "k",
        more={"h": "bigint"},
    ),
    "by doubles": groups(
        "a", f"SELECT {LAST}, d, count(*) AS n, count(DISTINCT k) AS m FROM a GROUP BY d", "d", more={"d": "double"}
    ),
    "by months": groups(
        "a",
        either(
            f"SELECT {LAST}, CAST(make_ym_interval(0, k) AS STRING) AS s, count(*) AS n FROM a GROUP BY make_ym_interval(0, k)",
            None,
        ),
        "s",
    ),
    "percentile": groups(
        "a", f"SELECT {LAST}, k, {either('percentile(v, 0.5)', 'quantile_cont(v, 0.5)')} AS p FROM a GROUP BY k", "k"
    ),
    "set of values": groups(
        "a", either(f"SELECT {LAST}, k, sort_array(collect_set(v)) AS s FROM a GROUP BY k", None), "k"
    ),
}

_SETS = {
    "union": Shape("ab", f"SELECT {DAILY}, k, z FROM a UNION SELECT {DAILY}, k, z FROM b"),
    "union all": Shape(
        "ab", "SELECT event_time, k, v FROM a WHERE v > 1 UNION ALL SELECT event_time, k, w FROM b", row_wise=True
    ),
    "union all, grouped": groups(
        "ab",
        "SELECT max(event_time) AS event_time, k, count(*) AS n FROM "
        "(SELECT event_time, k, z FROM a UNION ALL SELECT event_time, k, z FROM b) q GROUP BY k",
        "k",
    ),
    "union of rows and groups": Shape(
        "ab", f"SELECT {LAST}, k, sum(v) AS s FROM a GROUP BY k UNION ALL SELECT event_time, w, k FROM b"
    ),
    "union with nothing in some columns": Shape(
        "ab",
        f"SELECT {LAST}, k, NULL AS q, count(*) AS n FROM a GROUP BY k UNION ALL SELECT event_time, k, z, NULL FROM b",
    ),
    "union of two groupings": Shape(
        "ab",
        f"SELECT {LAST}, k AS key, count(*) AS n FROM a GROUP BY k UNION ALL "
        "SELECT max(b.event_time), w, count(*) FROM b GROUP BY w",
    ),
    "tagged union, grouped": groups(
        "ab",
        "SELECT max(event_time) AS event_time, tag, k, count(DISTINCT event_time) AS n FROM "
        "(SELECT event_time, 1 AS tag, k FROM a UNION ALL SELECT event_time, 2, k FROM b) q GROUP BY tag, k",
        "tag",
        "k",
    ),
    "except": Shape("ab", f"SELECT {DAILY}, k, z FROM a EXCEPT SELECT {DAILY}, k, z FROM b"),
    "except all": Shape("ab", f"SELECT {DAILY}, k, z FROM a EXCEPT ALL SELECT {DAILY}, k, z FROM b"),
    "intersect": Shape("ab", f"SELECT {DAILY}, k, z FROM a INTERSECT SELECT {DAILY}, k, z FROM b"),
    "nothing read, intersect": Shape(
        "ab", f"SELECT {CONSTANT}, 'x' AS z FROM a INTERSECT SELECT {CONSTANT}, 'x' FROM b"
    ),
    "nothing read, except": Shape("ab", f"SELECT {CONSTANT}, 'x' AS z FROM a EXCEPT SELECT {CONSTANT}, 'x' FROM b"),
    "nothing read, pairs": Shape("ab", f"SELECT {CONSTANT}, 'x' AS z, count(*) AS n FROM a CROSS JOIN b"),
    "nothing read, median": Shape(
        "a", f"SELECT {CONSTANT}, q.one, median(1) AS m, count(*) AS n FROM (SELECT 'x' AS one FROM a) q GROUP BY q.one"
    ),
    "intersect all": Shape("ab", f"SELECT {DAILY}, k, z FROM a INTERSECT ALL SELECT {DAILY}, k, z FROM b"),
}

_ALL_OF_A = then("event_time", "k", "z", "v")
_ROWS = "ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"

_OVER = {
    "top 2": Shape(
        "a",
        "SELECT event_time, k, v, z FROM (SELECT event_time, k, z, v, "
        f"row_number() OVER (PARTITION BY k ORDER BY v DESC{_ALL_OF_A}) AS rn FROM a) q WHERE rn <= 2",
        ("k",),
    ),
    "running sum of rows": Shape(
        "a",
        f"SELECT event_time, k, z, v, sum(v) OVER (PARTITION BY k ORDER BY event_time{_ALL_OF_A} {_ROWS}) AS s FROM a",
    ),
    "running sum of peers": Shape(
        "a",
        "SELECT event_time, k, v, sum(v) OVER (PARTITION BY k ORDER BY event_time) AS s, "
        "rank() OVER (PARTITION BY k ORDER BY event_time) AS r FROM a",
    ),
    "longs of a partition and of peers": Shape(
        "a",
        "SELECT event_time, k, h, v, avg(h) OVER (PARTITION BY k) AS m, sum(h) OVER (PARTITION BY k ORDER BY v) AS s, "
        "rank() OVER (PARTITION BY k ORDER BY v) AS r FROM a",
        more={"h": "bigint"},
    ),
    "neighbours": Shape(
        "a",
        f"SELECT event_time, k, z, v, lag(v) OVER (PARTITION BY k ORDER BY event_time{_ALL_OF_A}) AS p, "
        f"lead(z) OVER (PARTITION BY k ORDER BY event_time{_ALL_OF_A}) AS n FROM a",
    ),
    "rows and peers at once": Shape(
        "a",
        f"SELECT event_time, k, z, v, row_number() OVER (PARTITION BY k ORDER BY v{_ALL_OF_A}) AS rn, "
        "dense_rank() OVER (PARTITION BY k ORDER BY v) AS dr FROM a",
    ),
    "nested partitions": Shape(
        "a",
        "SELECT event_time, k, z, v, sum(v) OVER (PARTITION BY k) AS s, count(*) OVER (PARTITION BY k, z) AS n FROM a",
    ),
    "conflicting partitions": Shape(
        "a", "SELECT event_time, k, z, v, sum(v) OVER (PARTITION BY k) AS s, count(*) OVER (PARTITION BY z) AS n FROM a"
    ),
    "global row number": Shape(
        "a", f"SELECT event_time, k, z, v, row_number() OVER (ORDER BY v{_ALL_OF_A}) AS r FROM a"
    ),
    "the last of each, counted by hours": groups(
        "a",
        _tumbling(
            "(SELECT * FROM (SELECT event_time, k, z, v, row_number() OVER "
            f"(PARTITION BY k, z ORDER BY event_time DESC{_ALL_OF_A}) AS rn FROM a) p WHERE rn = 1)",
            columns="",
        ),
        "event_time",
    ),
}

_TIMED = {
    "tumbling": groups("a", _tumbling("a"), "event_time", "k", final_only=True),
    "tumbling over dates": groups("a", _tumbling("a"), "event_time", "k", final_only=True, times="date"),
    "tumbling, distinct": groups(
        "a", _tumbling("a", calls="count(DISTINCT q.z) AS n, max(q.v) AS m"), "event_time", "k", final_only=True
    ),
    "hopping": groups(
        "a",
        "SELECT {} AS event_time, q.k, count(*) AS n FROM {} GROUP BY {}, q.k {}".format(
            either("window.start", "q.w0"),
            either(
                "a q",
                "(SELECT h.*, time_bucket(INTERVAL 1 HOUR, h.event_time) - s.n * INTERVAL 1 HOUR AS w0 "
                "FROM a h, (VALUES (0), (1)) s(n)) q",
            ),
            either("window(q.event_time, '2 hours', '1 hour')", "q.w0"),
            final("HAVING", "window.end", "q.w0 + INTERVAL 2 HOUR"),
        ),
        "event_time",
        "k",
        final_only=True,
    ),
    "sessions": Shape(
        "a",
        either(
            "SELECT session_window.start AS event_time, session_window.end AS until, k, count(*) AS n FROM a "
            "GROUP BY session_window(event_time, '30 minutes'), k",
            None,
        )
        + final(" HAVING", END_OF_SESSION),
        final_only=True,
    ),
    "windows again": groups(
        "a",
        f"SELECT q.event_time, max(q.n) AS m, count(*) AS c FROM ({_tumbling('a')}) q GROUP BY q.event_time",
        "event_time",
    ),
    "windows of windows": groups(
        "a",
        _tumbling(f"({_tumbling('a')})", columns="", calls="count(*) AS c, sum(q.s) AS s").replace(
            "INTERVAL 1 HOUR", "INTERVAL 1 HOUR"
        ),
        "event_time",
    ),
    "windows joined": groups(
        "ab",
        f"SELECT l.event_time, l.k, l.n, r.n AS m FROM ({_tumbling('a')}) l LEFT JOIN "
        f"({_tumbling('b', calls='count(*) AS n')}) r ON l.event_time = r.event_time AND l.k {SAME} r.k",
        "event_time",
        "k",
    ),
    "windows of a union": groups(
        "ab",
        _tumbling("(SELECT event_time, k, v FROM a UNION ALL SELECT event_time, k, w FROM b)"),
        "event_time",
        "k",
    ),
    "windows of a join": groups(
        "ab", _tumbling("(SELECT a.event_time, a.k, b.w AS v FROM a JOIN b ON a.k = b.k)"), "event_time", "k"
    ),
    "windows of what is no event time": groups(
        "a",
        _tumbling("(SELECT date_trunc('HOUR', event_time) AS event_time, k, v FROM a)").replace(
            final("HAVING", "window.end", "q.w0 + INTERVAL 1 HOUR"), ""
        ),
        "event_time",
        "k",
    ),
    "windows and rows": Shape(
        "ab",
        f"{_tumbling('a', calls='count(*) AS n')} UNION ALL SELECT event_time, k, count(*) OVER (PARTITION BY k) FROM b",
    ),
    "sums of one side, event time last": Shape(
        "ab",
        "SELECT a.k, a.v, q.s, a.event_time FROM a JOIN (SELECT k, sum(w) AS s FROM b GROUP BY k) q ON a.k = q.k",
    ),
    "beside a mean of all, event time last": Shape(
        "a", "SELECT k, v, event_time FROM a WHERE v > (SELECT avg(v) FROM a)"
    ),
    "groups of lists, joined": Shape(
        "ab",
        f"SELECT q.event_time, q.s, b.w FROM (SELECT {either('array(k)', 'list_value(k)')} AS ks, k, max(event_time) AS event_time, sum(v) AS s "
        "FROM a GROUP BY k) q "
        "JOIN b ON q.k = b.k",
    ),
    "full join of one row and rows, by order": Shape(
        "ab",
        "SELECT coalesce(x.event_time, y.event_time) AS event_time, x.n, y.w FROM "
        "(SELECT max(event_time) AS event_time, count(DISTINCT k) AS n FROM a) x FULL JOIN b y ON x.n < y.w",
    ),
    "temporal, counted by hours": groups(
        "ab",
        _tumbling(
            "(SELECT a.event_time, a.k, v.w AS v FROM a LEFT JOIN LATERAL "
            + VERSION
            + " ON TRUE"
            + final(" WHERE", "a.event_time")
            + ")"
        ),
        "event_time",
        "k",
        temporal=OF_B,
    ),
}

_STEPS = {
    "two statements": groups(
        "a",
        f"SELECT max(event_time) AS event_time, n, count(*) AS c FROM {step('counted')} q GROUP BY n",
        "n",
        steps=(("counted", f"SELECT {LAST}, k, count(*) AS n FROM a GROUP BY k"),),
    ),
    "a statement used twice": Shape(
        "ab",
        f"SELECT l.event_time, l.k, l.s, r.s AS rs FROM {step('sums')} l JOIN {step('sums')} r ON l.k = r.s",
        steps=(
            ("both", "SELECT event_time, k, v FROM a UNION ALL SELECT event_time, k, w FROM b"),
            ("sums", f"SELECT max(q.event_time) AS event_time, k, sum(v) AS s FROM {step('both')} q GROUP BY k"),
        ),
    ),
    "rows": Shape("a", "SELECT event_time, k * 10 AS kk, upper(z) AS z, v FROM a WHERE v >= 1", row_wise=True),
}

_HIGHEST = either("max_by(z, struct(v" + then("z") + ")) OVER (PARTITION BY k)", None)

_AGGREGATES = {
    "moments": groups("a", either(f"SELECT {LAST}, k, {MOMENTS} FROM a GROUP BY k", None), "k", more={"d": "double"}),
    "moments and bits of whole numbers": groups("a", f"SELECT {LAST}, z, {BOTH_KNOW} FROM a GROUP BY z", "z"),
    "greatest by another": groups(
        "a",
        f"SELECT {LAST}, k, {greatest_by('z', 'v')} AS hi, {greatest_by('v', 'z', function='min_by')} AS lo, "
        f"{greatest_by('v', 'event_time', condition=' FILTER (WHERE v > 0)')} AS latest FROM a GROUP BY k",
        "k",
    ),
    "texts in order": groups(
        "a", f"SELECT {LAST}, k, {listed('z', 'v')} AS l, count(DISTINCT v) AS n FROM a GROUP BY k", "k"
    ),
    "lists": groups("a", either(f"SELECT {LAST}, k, {LISTS} FROM a GROUP BY k", None), "k", more={"d": "double"}),
    "quantiles and modes": groups(
        "a",
        f"SELECT {LAST}, k, {quantiles('v')}, {either('mode(v, true)', None)} AS m, "
        f"{either('mode() WITHIN GROUP (ORDER BY z DESC)', None)} AS z, {either('median(d)', None)} AS md FROM a GROUP BY k",
        "k",
        more={"d": "double"},
    ),
    "rollup of moments": Shape(
        "a",
        f"SELECT {LAST}, k, z, covar_pop(v, k) AS c, {greatest_by('z', 'v')} AS hi, CAST(grouping_id({either('', 'k, z')}) AS INT) AS g "
        f"FROM a GROUP BY ROLLUP (k, z) {either('', 'HAVING count(*) > 0')}",
        ("k", "z", "g"),
        one_row_each=True,
    ),
    "moments of all": groups("a", f"SELECT {LAST}, covar_samp(v, k) AS c, {listed('z', 'v')} AS l FROM a"),
    "moments by hours": groups(
        "a",
        _tumbling("a", calls=f"covar_pop(q.v, q.k) AS c, {listed('q.z', 'q.v')} AS l, bit_xor(q.v) AS x"),
        "event_time",
        "k",
        final_only=True,
    ),
    "sums of peers and of frames": Shape(
        "a",
        either(
            "SELECT event_time, k, z, sum(d) OVER (PARTITION BY z ORDER BY v) AS s, "
            "avg(d) OVER (PARTITION BY k ORDER BY event_time RANGE BETWEEN INTERVAL 1 HOUR PRECEDING AND CURRENT ROW) AS m FROM a",
            None,
        ),
        more={"d": "double"},
    ),
    "moments over rows": Shape(
        "a",
        f"SELECT event_time, k, z, v, covar_pop(v, k) OVER (PARTITION BY z ORDER BY v{_ALL_OF_A} {_ROWS}) AS c, "
        f"{_HIGHEST} AS hi, "
        f"{either(f'collect_list(v) OVER (PARTITION BY z ORDER BY v{_ALL_OF_A} {_ROWS})', None)} AS l FROM a",
    ),
}

SHAPES = {
    **_JOINS,
    **OF_NULLS,
    **SUBQUERIES,
    **_GROUPS,
    **_AGGREGATES,
    **_SETS,
    **_OVER,
    **OVER_WINDOWS,
    **OF_LISTS,
    **_TIMED,
    **LOOKUPS,
    **_STEPS,
}
