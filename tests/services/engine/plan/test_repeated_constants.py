"""A constant in both branches of a set operation that counts its rows.

One of the branches has none yet: Spark knows the column by its value then.
"""

from __future__ import annotations

import pyarrow as pa
import pytest

from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.transforming import A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

TOLD = {
    "EXCEPT ALL": [[(A, 1), (A, 1), (A, 2)], [(R, 1)], [(R, 1)]],
    "INTERSECT ALL": [[], [(A, 1)], [(R, 1)]],
}
CONSTANTS = ["array(1)", "struct('x' AS s)", "array(NULL)", "NULL", "1"]


@pytest.mark.parametrize("constant", CONSTANTS)
@pytest.mark.parametrize("operation", TOLD)
def test_constants_of_both_sides(lab: Lab, operation: str, constant: str) -> None:
    own = own_lab(lab)
    schema = input_schema(pa.field("k", pa.int32()))
    a, b = Input(own.folder, "a", schema), Input(own.folder, "b", schema, 2)
    rows = f"(SELECT event_time, k, {constant} AS q FROM a {operation} SELECT event_time, k, {constant} AS q FROM b)"
    derived = Derivative(f"SELECT event_time, k, q IS NULL AS q FROM {rows}", [a, b], own.call)
    a.add([(A, 0, 1), (A, 0, 1), (A, 0, 2)]).add([]).add([(R, 0, 1), (R, 0, 1)] if operation[0] == "I" else [(R, 0, 1)])
    b.add([]).add([(A, 0, 1)]).add([])
    told = [[(op, k) for op, _, k, _ in derived.pull([block, block]).records] for block in range(1, 4)]
    assert told == TOLD[operation]
