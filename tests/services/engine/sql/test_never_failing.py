"""Expressions that fail on no row, and those that are not known to."""

from __future__ import annotations

import pytest

from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, analysed, items, without_alias
from odfabric_engine_spark.sql.constants.never_failing import never_fails

pytestmark = pytest.mark.spark

ROWS = "values (1, 'x', date'2024-01-01', true) t(n, s, d, b)"
NEVER = [
    "n",
    "cast(n as bigint)",
    "case when b then upper(s) else s end",
    "n > 1 + 2 and s in ('x', 'y')",
    "coalesce(n, 7 div 2)",
    "named_struct('m', n)",
]
PERHAPS = [
    "n + 1",
    "cast(s as int)",
    "cast(d as timestamp)",
    "case when b then 1 div 0 else 1 end",
    "coalesce(s, cast(cast('abc' as int) as string))",
    "b and 1 div 0 > 0",
    "raise_error(s)",
]


@pytest.mark.parametrize("text", NEVER + PERHAPS)
def test_what_fails_on_no_row(text: str, engine_call: EngineCall) -> None:
    plan = analysed(engine_call.session.sql(f"select {text} as x from {ROWS}"))
    (named,) = items(plan.projectList())
    assert never_fails(Catalyst(engine_call.session), without_alias(named)) == (text in NEVER)
