"""Constants that fail for every row are reported when a query is declared."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.sql.validating import validate
from tests.services.engine.transforming import A, Derivative, Input, input_schema

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("select event_time,\n 1 / 0 z from a", (2, 2)),
        ("select event_time, v + 'x' z from a", (1, 20)),
        ("select event_time, v from a where v > 'x' and k = 'y'", (1, 35)),
        ("select event_time, cast(300 as tinyint) z from a", (1, 20)),
        ("select event_time, coalesce(v, 1 / 0) z from a", None),
        ("select event_time, if(v > 1, 1 / 0, 2) z from a", None),
        ("select event_time, v from a where v > 1 and v < 1 / 0", None),
        ("select event_time, v from (select event_time, v, 1 / 0 z from a)", None),
        ("select event_time, z + 1 x from (select event_time, v + 1 / 0 z from a)", (1, 57)),
        ("with b as (select event_time, k || (1 / 0) z from a) select event_time, upper(z) x from b", (1, 37)),
        ("select event_time, v from a union all select event_time, 1 / 0 from a", (1, 58)),
        ("select event_time, coalesce(z, 1) x from (select event_time, 1 / 0 z from a)", None),
        ("select event_time, date_format(event_time, 'YYYY-MM') z from a", (1, 20)),
        ("select event_time, to_timestamp(k, 'dd/bb') z from a", (1, 20)),
        ("select event_time, upper(regexp_replace(k, '(', '')) z from a", (1, 26)),
        ("select event_time, k rlike '[' z from a", (1, 22)),
        ("select event_time, v from a where k rlike '*' and v > 1", (1, 37)),
        ("select event_time, v from a where v > 1 and k rlike '*'", None),
        ("select event_time, v from a where k like 'x\\\\'", (1, 37)),
        ("select event_time, element_at(split(k, ','), 0) z from a", (1, 20)),
        ("select event_time, split_part(k, ',', 0) z from a", (1, 20)),
        ("select event_time, slice(split(k, ','), 0, 1) z from a", (1, 20)),
        ("select event_time, from_utc_timestamp(event_time, 'Europe/Atlantis') z from a", (1, 20)),
        ("select max(event_time) event_time, count(*) n from a group by date_format(event_time, 'YYYY')", (1, 63)),
        ("select event_time, if(v > 1, date_format(event_time, 'YYYY'), '') z from a", None),
        ("select event_time, case when k rlike '[' then 1 end z from a", None),
        ("select event_time, element_at(split(k, ','), 5) z, k like '%x' y from a", None),
        ("select event_time, try_divide(1, 0) z, date_format(event_time, 'yyyy') y from a", None),
        ("select event_time, null + 1 / 0 z from a", None),
        ("select event_time,\n make_date(2024, 13, 1) z from a", (2, 2)),
        ("select event_time, date_add(make_date(2024, 13, 1), v) z from a", (1, 29)),
        ("select event_time, make_timestamp(2024, 1, 1, 25, 0, 0) z from a", (1, 20)),
        ("select event_time, element_at(array(1), 5) z from a", (1, 20)),
        ("select event_time, next_day(date'2020-01-01', 'x') z from a", (1, 20)),
        ("select event_time, map(1, 2, 1, 3)[1] z from a", (1, 20)),
        ("select event_time, v from a where t > make_date(2024, 13, 1)", (1, 39)),
        ("select max(event_time) event_time, make_date(2024, 13, 1) z from a group by k", (1, 36)),
        ("select max(event_time) event_time, sum(1 / 0) z from a group by k", (1, 40)),
        ("select max(event_time) event_time, k from a group by k having max(t) > make_date(2024, 13, 1)", (1, 72)),
        ("select event_time, x from a lateral view explode(array(cast('x' as int))) as x", (1, 56)),
        ("select a.event_time, make_date(2024, 13, 1) z from a join b on a.k = b.k", (1, 22)),
        ("select max(event_time) event_time, sum(1 / 0) filter (where v > 9) z from a group by k", None),
        ("select max(event_time) event_time, if(count(*) > 9, 1 / 0, 1) z from a group by k", None),
        ("select max(event_time) event_time, k from a group by k, 1 / 0", None),
        ("select event_time, if(v > 9, make_date(2024, 13, 1), null) z from a", None),
        ("select event_time, if(v > 9, raise_error('x'), 1) z from a", None),
        ("select event_time, try_to_date('x') z, try_element_at(array(1), 5) y, get(array(1), 5) x from a", None),
    ],
)
def test_a_constant_that_fails_for_every_row_is_told_at_once(
    engine_call: EngineCall, sql: str, place: tuple[int, int] | None
) -> None:
    problems = validate(engine_call, sql).problems
    assert [(each.rule, (each.line, each.column)) for each in problems] == ([("constant", place)] if place else [])
    assert all("fails for every row" in each.message and each.hint for each in problems)
    if "event_time, 'YYYY" in sql:
        assert all("yyyy-MM-dd" in (each.hint or "") for each in problems)


@pytest.mark.parametrize(
    ("sql", "place"),
    [
        ("select event_time,\n if(v > 1, make_date(2024, 13, 1), null) z from a", (2, 12)),
        ("select event_time,\n if(v > 1, cast('x' as int), 2) z from a", (2, 12)),
        ("select max(event_time) event_time, k,\n max(if(v > 1, make_date(2024, 13, 1), null)) z from a group by k", (2, 16)),
        ("select event_time,\n (select max(if(b.v > 1, make_date(2024, 13, 1), null)) from a b) z from a", (2, 26)),
    ],
)  # fmt: skip
def test_a_constant_that_fails_for_some_rows_has_its_place(
    engine_call: EngineCall, sql: str, place: tuple[int, int]
) -> None:
    columns = [pa.field("k", pa.string()), pa.field("v", pa.int32()), pa.field("t", pa.date32())]
    one = Input(engine_call.exchange.root, "a", input_schema(*columns)).add([(A, 0, "x", 2, None)])
    with pytest.raises(InvalidData) as caught:
        Derivative(sql, [one], engine_call).pull()
    assert (caught.value.place.line, caught.value.place.column) == place, caught.value
