"""Named shapes of joins with null keys. As in `general_shapes`.

Nulls meet, or meet nothing, and are keys of what is above.
"""

from __future__ import annotations

from tests.services.engine.laws.grammar.dialects import either
from tests.services.engine.laws.shapes.named_shape import LAST, Shape, groups

_SAME = either("<=>", "IS NOT DISTINCT FROM")
_TIMES = "coalesce(a.event_time, b.event_time) AS event_time"

OF_NULLS = {
    "nulls made of equal keys, joined further": Shape(
        "abc",
        f"SELECT {_TIMES}, a.k, a.v, b.w, c.x FROM a JOIN b ON a.k = b.k LEFT JOIN c ON nullif(a.k, 1) = c.x",
    ),
    "nulls that meet, joined further": Shape(
        "abc", f"SELECT {_TIMES}, a.k, a.v, b.w, c.x FROM a JOIN b ON a.k {_SAME} b.k LEFT JOIN c ON a.k = c.x"
    ),
    "nulls that meet nothing, and then each other": Shape(
        "abc", f"SELECT {_TIMES}, a.k, a.v, b.w, c.x FROM a LEFT JOIN b ON a.k = b.k JOIN c ON a.k {_SAME} c.x"
    ),
    "nulls that meet nothing, twice": Shape(
        "abc",
        f"SELECT {_TIMES}, a.k, b.w, c.x FROM a FULL JOIN b ON a.k = b.k LEFT JOIN c ON coalesce(a.k, b.k) = c.x",
    ),
    "nulls of one of two keys": Shape(
        "ab",
        f"SELECT {_TIMES}, a.k, a.z, a.v, b.w FROM a FULL JOIN b ON a.k = b.k AND a.z {_SAME} b.z",
    ),
    "nulls that meet nothing, grouped": groups(
        "ab",
        f"SELECT {LAST}, a.k, count(*) AS n, count(DISTINCT a.v) AS d, sum(b.w) AS s FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k",
        "k",
    ),
    "nulls that meet nothing, numbered": Shape(
        "ab",
        "SELECT event_time, k, v, w, sum(v) OVER (PARTITION BY k) AS s FROM "
        "(SELECT a.event_time, a.k, a.v, b.w FROM a LEFT JOIN b ON a.k = b.k) q",
        ("k",),
    ),
    "nulls beside all of another": Shape(
        "abc", "SELECT a.event_time, a.k, c.x, b.w FROM a CROSS JOIN c LEFT JOIN b ON a.k = b.k"
    ),
}
