"""A query that is compiled already asks the JVM next to nothing."""

from __future__ import annotations

import pyarrow as pa
import pytest

from odfabric.errors import OdfError
from odfabric_engine_spark.spark.calls.call import EngineCall, StopSignal
from odfabric_engine_spark.spark.calls.interruptible_jvm_calls import interruptible
from tests.services.engine.transforming import A, Derivative, Input, input_schema

pytestmark = pytest.mark.spark

COLUMNS = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int64()))
QUESTIONS_MAX = 8
"""A session of its own takes four; each column that is asked for its name takes one more."""


class CountedQuestions(StopSignal):
    """Never asks a call to end; counts how often it could have.

    That is once for each question.
    """

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @property
    def reason(self) -> OdfError | None:
        self.count += 1
        return None


def test_an_iteration_of_a_group_by_asks_for_no_column(engine_call: EngineCall) -> None:
    one = Input(engine_call.exchange.root, "a", COLUMNS)
    query = "select max(event_time) as event_time, k, sum(v) as total, avg(v) as mean from a group by k"
    derived = Derivative(query, [one], engine_call)
    one.add([(A, 0, "x", 1), (A, 1, "y", 2)])
    first = CountedQuestions()
    with interruptible(first):
        derived.pull()
    assert first.count > 100, "compiling a query is hundreds of questions: they are counted"
    one.add([(A, 2, "x", 3)])
    again = CountedQuestions()
    with interruptible(again):
        found = derived.pull()
    assert [row[2:] for row in found.records] == [("x", 1, 1.0), ("x", 4, 2.0)]
    assert again.count <= QUESTIONS_MAX
