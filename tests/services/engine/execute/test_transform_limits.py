"""What one transform may write has a limit, on which it ends and leaves nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from odfabric.errors import LimitExceeded
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.transforming import A, Derivative, Input, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int64()))
LIMIT = "transform_output_bytes_max"
QUERIES = {
    "linear": "select event_time, k, explode(sequence(1, v)) as x from a",
    "grouped": "select max(event_time) as event_time, x, count(*) as n from (select event_time, explode(sequence(1, v)) as x from a) group by x",
    "joined": "select l.event_time, l.x, r.k from (select event_time, k, explode(sequence(1, v)) as x from a) l join a r on l.k = r.k",
}


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_what_a_transform_writes_has_a_limit(engine_call: EngineCall, tmp_path: Path, query: str) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "few", 100)], watermark=0)
    fitting = Derivative(query, [one], engine_call, name="fitting", settings={LIMIT: 10_000})
    assert len(fitting.pull().records) == 100
    one.add([(A, 1, "many", 1_000)], watermark=1)
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(LimitExceeded) as refused:
        fitting.pull()
    assert (refused.value.limit, refused.value.maximum) == (LIMIT, 10_000)
    assert sorted(path.name for path in tmp_path.iterdir()) == before, "neither a slice nor a checkpoint"
    raised = Derivative(query, [one], engine_call, name="raised", settings={LIMIT: 100_000})
    assert len(raised.pull().records) >= 1_000


def test_a_transform_may_write_as_much_as_the_limit_says(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "a", SCHEMA).add([(A, 0, "k", number) for number in range(64)], watermark=0)
    sizes = range(64 * (4 + 8 + 8), 64 * (4 + 8 + 8) + 64)  # kinds of change, times, numbers; and bits for nulls

    def fits(size: int) -> bool:
        derivative = Derivative(
            "select event_time, v from a", [one], engine_call, name=f"out-{size}", settings={LIMIT: size}
        )
        try:
            return len(derivative.pull().records) == 64
        except LimitExceeded:
            return False

    assert not fits(sizes[0] - 1)
    assert fits(sizes[-1])
