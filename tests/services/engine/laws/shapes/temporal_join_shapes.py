"""Named shapes of queries that look up versions in a temporal table.

As in `general_shapes`.
"""

from __future__ import annotations

from odfabric.model.metadata import TemporalTable
from tests.services.engine.laws.grammar.dialects import either, final, then
from tests.services.engine.laws.shapes.named_shape import Shape

VERSION = (
    "(SELECT * FROM b WHERE b.k = a.k AND b.event_time <= a.event_time "
    f"ORDER BY b.event_time DESC{then('b.k', 'b.z', 'b.w')} LIMIT 1) v"
)
"""The version of `b` that was valid at a row of `a`."""
OF_B = (TemporalTable(name="b", primary_key=("k",)),)


def _looked_up(rows: str) -> Shape:
    """A temporal join for each row of a relation that is made first."""
    text = f"SELECT a.event_time, a.k, a.v, v.w FROM ({rows}) a LEFT JOIN LATERAL {VERSION} ON TRUE"
    return Shape("ab", text + final(" WHERE", "a.event_time"), temporal=OF_B)


LOOKUPS = {
    "temporal": Shape(
        "ab",
        either(
            f"SELECT a.event_time, a.k, a.v, v.w FROM a JOIN LATERAL {VERSION}",
            f"SELECT a.event_time, a.k, a.v, v.w FROM a JOIN LATERAL {VERSION} ON TRUE",
        )
        + final(" WHERE", "a.event_time"),
        temporal=OF_B,
    ),
    "temporal, left": Shape(
        "ab",
        f"SELECT a.event_time, a.k, a.v, v.w FROM a LEFT JOIN LATERAL {VERSION} ON TRUE"
        + final(" WHERE", "a.event_time"),
        temporal=OF_B,
    ),
    "temporal, of rows that a stage chose": Shape(
        "ab",
        "SELECT a.event_time, a.k, v.w, v.since FROM (SELECT event_time, k, v FROM a WHERE v <= (SELECT max(r.v) FROM a r WHERE r.z = a.z)) a "
        f"LEFT JOIN LATERAL {VERSION.replace('*', 'k, z, w, event_time, event_time AS since')} ON TRUE"
        + final(" WHERE", "a.event_time"),
        temporal=OF_B,
    ),
    "temporal, of distinct rows": _looked_up("SELECT DISTINCT event_time, k, v FROM a"),
    "temporal, of rows in both of two": _looked_up(
        "SELECT event_time, k, v FROM a INTERSECT SELECT event_time, k, w FROM b"
    ),
    "temporal, of rows in one of two": _looked_up(
        "SELECT event_time, k, v FROM a EXCEPT SELECT event_time, k, w FROM b"
    ),
    "temporal, of rows of two, each once": _looked_up(
        "SELECT event_time, k, v FROM a UNION SELECT event_time, k, w FROM b"
    ),
    "temporal, of groups by their times": _looked_up(
        "SELECT event_time, k, count(*) AS v FROM a GROUP BY event_time, k"
    ),
    "temporal, of groups of two kinds by their times": _looked_up(
        "SELECT event_time, k, count(DISTINCT v) AS v FROM a GROUP BY event_time, k"
    ),
}
