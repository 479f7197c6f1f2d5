"""Columns between stages or kept by key have the query's types, not Arrow's.

Where Arrow has but a wider type.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest

from odfabric_engine_spark.operators.keyed_recompute import recompute_plan
from tests.services.engine.laws.law_check import Lab, net_rows, own_lab, well_formed
from tests.services.engine.transforming import A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

DAYS = "y - date'1970-01-01'"
LOCAL = "cast(event_time as timestamp_ntz)"
OVER = "over (partition by k order by event_time, u)"
FORMS = {
    "window": f"select event_time, k, u, cast(first_value({DAYS}) ignore nulls {OVER} as string) as v from a",
    "windows": f"select event_time, k, cast(max({DAYS}) over (partition by k order by event_time) as string) as u, cast(first_value({DAYS}) ignore nulls {OVER} as string) as v from a",
    "lists": f"select event_time, k, max(u) over (partition by k order by event_time) as u, cast(max(array({DAYS})) {OVER} as string) as v from a",
    "structs": f"select event_time, k, max(u) over (partition by k order by event_time) as u, cast(max(struct({DAYS} as d)) {OVER} as string) as v from a",
    "neighbour": f"select event_time, k, u, cast(lag({DAYS}) {OVER} as string) as v from a",
    "hours": f"select event_time, k, u, cast(lag(interval '1' hour * u) {OVER} as string) as v from a",
    "within a list": f"select event_time, k, u, cast(lag(array({DAYS}, null)) {OVER} as string) as v from a",
    "within a struct": f"select event_time, k, u, cast(lag(struct({DAYS} as d)) {OVER} as string) as v from a",
    "group": f"select event_time, k, u, cast(i as string) as v from (select max(event_time) as event_time, k, i, count(*) as u from (select *, {DAYS} as i from a) group by k, i)",
    "extreme": f"select event_time, k, cast(i as string) as v from (select max(event_time) as event_time, k, max({DAYS}) as i from a group by k)",
    "two sums": f"select event_time, k, cast(max(i) {OVER} as string) as v from (select max(event_time) as event_time, k, u, max({DAYS}) as i from a group by k, u)",
    "latest": f"select event_time, k, cast({LOCAL} as string) as v from a where {LOCAL} = (select max({LOCAL}) from a)",
    "latest of a struct": f"select event_time, k, cast({LOCAL} as string) as v from a where struct({LOCAL}) = (select max(struct({LOCAL})) from a)",
    "months": f"select event_time, k, cast(first_value(m) ignore nulls {OVER} as string) as v from (select *, make_ym_interval(0, u) as m from a)",
    "months as numbers": f"select event_time, k, cast(sum(cast(m as int)) {OVER} as string) as v from (select *, interval '1' month * u as m from a)",
    "numbers as months": f"select event_time, k, cast(sum(cast(u as interval month)) {OVER} as string) as v from a",
    "lists of nothing": f"select event_time, k, cast(max(m) {OVER} as string) as v from (select *, array() as m from a)",
    "join": f"select event_time, k, cast(i as string) as v from (select a.event_time, a.k, max(a.{DAYS}) over (partition by a.k) as i from a join (select distinct k from a) as b on a.k = b.k)",
}
ROWS = {u: (dt.date(1970, 1, 1) + dt.timedelta(days=days), u) for u, days in [(1, -2), (2, 3), (3, 5), (4, 7)]}


@pytest.mark.parametrize("form", FORMS)
def test_texts_are_those_of_the_types(lab: Lab, monkeypatch: pytest.MonkeyPatch, form: str) -> None:
    # All rows of a key are bound, as of keys that are looked at whole.
    monkeypatch.setattr(recompute_plan, "cumulative_windows_of", lambda *_: None)
    monkeypatch.setattr(recompute_plan, "bounded_frames_of", lambda *_: None)
    own = own_lab(lab)
    schema = input_schema(pa.field("k", pa.int32()), pa.field("y", pa.date32()), pa.field("u", pa.int32()))
    one = Input(own.folder, "a", schema)
    derived = Derivative(FORMS[form], [one], own.call)
    records: list[tuple[Any, ...]] = []
    for changes in ([(A, 1), (A, 2), (A, 3)], [(A, 4)], [(R, 2)]):
        one.add([(op, u * 1_000, 1, *ROWS[u]) for op, u in changes])
        told = derived.pull().records
        well_formed(records, told)
        records += told
    left = ", ".join(
        f"(timestamp'1970-01-01 00:00:0{u}Z', 1, date'{day}', {u})" for u, (day, _) in ROWS.items() if u != 2
    )
    plain = own.call.session.sql(f"with a(event_time, k, y, u) as (values {left}) {FORMS[form]}").collect()
    assert sorted(str(row["v"]) for row in plain) == sorted(str(row[-1]) for row in net_rows(records).elements())
