"""Rows withdrawn before they come: absent, cancelling, and logged.

They count as absent, cancel what comes later, and the log reports them.
"""

from __future__ import annotations

import logging
import re
from pathlib import Path

import pyarrow as pa
import pytest

from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.laws.law_check import Row, net_rows
from tests.services.engine.transforming import CF, CT, A, Derivative, Input, R, input_schema

pytestmark = pytest.mark.spark

COLUMNS = (pa.field("k", pa.int32()), pa.field("s", pa.string()))
JOIN = "select a.event_time, a.k, b.s from a join b on a.k = b.k"
GROUPS = "select max(event_time) event_time, k, count(*) n from a group by k"


def _inputs(folder: Path) -> tuple[Input, Input]:
    a, b = (Input(folder, alias, input_schema(*COLUMNS), number) for number, alias in enumerate("ab", 1))
    a.add([(A, 0, 1, "x"), (R, 1, 1, "early"), (A, 2, 2, "y")])
    b.add([(A, 0, 1, "one"), (A, 0, 2, "two")])
    return a, b


def test_the_log_names_the_offsets_of_rows_that_were_not_there(
    engine_call: EngineCall, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = _inputs(tmp_path)
    derived = Derivative(JOIN, [a, b], engine_call)
    records: list[Row] = []
    with caplog.at_level(logging.WARNING):
        records += derived.pull().records
        assert [each.getMessage() for each in caplog.records] == [
            "1 retractions of a came before their inserts (offsets 1): each cancels its insert when that comes"
        ]
        caplog.clear()
        a.add([(A, 1, 1, "early"), (R, 9, 2, "never"), (R, 2, 2, "y")])
        records += derived.pull().records
        (told,) = (each.getMessage() for each in caplog.records)
        assert re.search(r"^1 rows of a .*\(offsets 4\)", told)
    assert {row[1:]: n for row, n in net_rows(records).items()} == {(1, "one"): 1}


def test_a_group_that_owes_rows_is_told_and_not_given(
    engine_call: EngineCall, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, _ = _inputs(tmp_path)
    a.add([(R, 2, 2, "y"), (R, 3, 2, "z"), (R, 3, 3, "z")])
    derived = Derivative(GROUPS, [a], engine_call)
    with caplog.at_level(logging.WARNING):
        records = derived.pull().records
    assert [each.getMessage() for each in caplog.records] == [
        "2 groups have more rows withdrawn than added: they are not given until these come"
    ]
    assert not net_rows(records)


def test_nothing_is_told_of_rows_that_were_there(
    engine_call: EngineCall, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    a, b = (Input(tmp_path, alias, input_schema(*COLUMNS), number) for number, alias in enumerate("ab", 1))
    for one in (a, b):
        one.add([(A, 0, 1, "x"), (A, 1, 1, "y")])
    derivatives = [
        Derivative(JOIN, [a, b], engine_call, name="join"),
        Derivative(GROUPS, [a], engine_call, name="groups"),
    ]
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            for derived in derivatives:
                derived.pull()
            a.add([(R, 0, 1, "x"), (CF, 1, 1, "y"), (CT, 1, 1, "z"), (A, 2, 1, "in and out"), (R, 2, 1, "in and out")])
    assert not caplog.records


@pytest.mark.parametrize(
    ("subquery", "expected"),
    {
        "select count(*) from a": (0, 1),
        "select max(s) from a": (None, "late"),
        "select count(distinct s) from a": (0, 1),
        "select sum(k) from a where s > 'm'": (None, None),
    }.items(),
)
def test_over_unmatched_retractions_there_is_a_row_as_over_nothing(
    engine_call: EngineCall, tmp_path: Path, subquery: str, expected: tuple[object, object]
) -> None:
    a, b = (Input(tmp_path, alias, input_schema(*COLUMNS), number) for number, alias in enumerate("ab", 1))
    a.add([(R, 1, 1, "early")])
    b.add([(A, 0, 2, "two")])
    derived = Derivative(f"select event_time, s, ({subquery}) as n from b", [a, b], engine_call)
    records = derived.pull().records
    assert [row[-1] for row in net_rows(records)] == [expected[0]]
    a.add([(A, 1, 1, "early"), (A, 1, 1, "late")])
    records += derived.pull().records
    assert [row[-1] for row in net_rows(records)] == [expected[1]]
