"""An input with new or reordered columns: same meaning runs, others stop early.

They are stopped before anything is written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

from odfabric.errors import InvalidData
from odfabric.model.engine import QueryInput, ValidateRequest
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.compile.compile_query import validate_query
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.transforming import CF, CT, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int64()))

SAME = [
    "select event_time, k, v + 1 x from a",
    "select event_time, k from (select * from a where v > 0)",
    "select event_time, k from a union all select event_time, k from (select *, v * 2 w from a)",
    "select max(event_time) event_time, k, count(*) n from (select *, v + 1 w from a) group by k",
    "select event_time, k, v from a where exists (select * from a b where b.k = a.k and b.v > a.v)",
    "select l.event_time, l.k, r.v from a l join (select * from a) r on l.k = r.k",
    "select event_time, k, v + offset x, op, system_time s from a",
    "select event_time, k, v from (select offset, op, system_time, event_time, k, v from a) union all select event_time, k, v from a",
    "with x as (select * from a) select event_time, k, sum(v) over (partition by k) s from x",
    "select event_time, transform(array(v), e -> e + 1)[0] x from a",
]
OTHER = [
    "select event_time, to_csv(struct(*)) x from a",
    "select max(event_time) event_time, sum(length(to_csv(struct(*)))) n from a",
    "select event_time, upper(k) as note, concat(note, '!') x from a",
    "select l.event_time, l.k, l.v from a l natural join (select * from a) r",
    "select event_time, k, v from (select * from a except select * from a where v > 1)",
    "select event_time, k, v from (select *, row_number() over (partition by k order by v) n from a) where n = 1",
]


@pytest.fixture
def one(tmp_path: Path) -> Input:
    return Input(tmp_path, "a", SCHEMA).add([(A, 0, "x", 1), (A, 1, "y", 2)])


def widen(one: Input) -> None:
    """The input gets a column, and rows that have it."""
    one.schema = one.schema.append(pa.field("note", pa.string()))
    one.rows = [(*row, None) for row in one.rows]
    one.add([(CF, 0, "x", 1, None), (CT, 0, "x", 5, "hi"), (R, 1, "y", 2, None), (A, 2, "z", 3, "new")])


def turn(one: Input) -> None:
    """The input has its columns in another order, a new one among them."""
    *system, event_time, k, v = one.schema
    one.schema = pa.schema([*system, v, pa.field("note", pa.string()), k, event_time])
    one.rows = [(offset, op, at, v, None, k, time) for offset, op, at, time, k, v in one.rows]
    one.add([(CF, 1, None, "x", 0), (CT, 5, "hi", "x", 0), (R, 2, None, "y", 1), (A, 3, "new", "z", 2)])


@pytest.mark.parametrize("change", [widen, turn])
@pytest.mark.parametrize("sql", SAME)
def test_a_query_that_means_the_same_goes_on(
    engine_call: EngineCall, one: Input, sql: str, change: Callable[[Input], None]
) -> None:
    sliced = Derivative(sql, [one], engine_call, name="sliced")
    found = sliced.pull().records
    change(one)
    found += sliced.pull().records
    whole = Derivative(sql, [one], engine_call, name="whole").pull().records
    net = [+Counter(dict.fromkeys(records, 0)) for records in (found, whole)]
    for counts, records in zip(net, (found, whole), strict=True):
        for op, *row in records:
            counts[tuple(row)] += 1 if op in (A, CT) else -1
    assert +net[0] == +net[1]


@pytest.mark.parametrize("change", [widen, turn])
@pytest.mark.parametrize("sql", OTHER)
def test_one_that_means_something_else_is_stopped(
    engine_call: EngineCall, one: Input, sql: str, change: Callable[[Input], None]
) -> None:
    derivative = Derivative(sql, [one], engine_call, name="stopped")
    derivative.pull()
    before = _meaning(engine_call, derivative, one)
    change(one)
    assert _meaning(engine_call, derivative, one) != before
    with pytest.raises(InvalidData, match="`a` has got `note`") as stopped:
        derivative.pull()
    assert stopped.value.place.rule == "checkpoint-discontinued"
    assert "--anew" in (stopped.value.hint or "")


def _meaning(call: EngineCall, derivative: Derivative, one: Input) -> str | None:
    table = QueryInput(alias="a", vocabulary=DatasetVocabulary(), data_schema=one.data_schema)
    request = ValidateRequest(vocabulary=DatasetVocabulary(), transform=derivative.transform, inputs=(table,))
    found = validate_query(request, call)
    assert found.problems == ()
    assert found.meaning == validate_query(request, call).meaning
    return found.meaning
