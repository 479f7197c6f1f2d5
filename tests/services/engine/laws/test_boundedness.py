"""Law L6: a transaction looks at changes and touched keys, at any history length.

Over named shapes and random compositions, as `test_general_laws` (`ODF_LAW_CASES`, from 100 on all of them; below, those of one of twelve days):
each input in turn gets one row of a key, once among a few keys and then among ten times as many. What is looked at must be the same, but
where ValidateQuery notes that a change reaches further, and for queries whose keys have all rows by what is in them.
"""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as types
import pytest

from odfabric.formats.slices.arrow_schema import arrow_to_data_schema
from odfabric.model.engine import QueryInput, ValidateRequest
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric_engine_spark.compile.compile_query import validate_query
from odfabric_engine_spark.state.row_state import RowState
from tests.services.engine.laws.grammar.general_cases import DAY, GeneralCase
from tests.services.engine.laws.grammar.general_operators import composed_case
from tests.services.engine.laws.law_check import Lab, own_lab
from tests.services.engine.laws.rows_read import LookedAt, RowCounter
from tests.services.engine.laws.shapes.general_shapes import SHAPES, shape_case
from tests.services.engine.transforming import A, Derivative, Input, R, input_schema
from tests.support.turns import today

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

IS_LONG = int(os.environ.get("ODF_LAW_CASES", "0")) >= 100
COMPOSED = 150 if IS_LONG else 12
TURNS = 1 if IS_LONG else 12

KEYS = (30, 300)
CHANGED = (17, 19)
"""One key among the few, another among the many."""

COPIES = 3
"""Rows of each key before the change."""

MORE_MAX = 12
"""Rows that may be looked at more among ten times as many: a search has further to go, and a product may be another key."""

EVERY_DAY = (
    *(
        "inner",
        "unrelated first",
        "or, one key",
        "full using, grouped",
        "self-join",
        "scalar count",
        "scalar of a range",
    ),
    *("lateral of a range", "aggregate again", "top 2", "sessions", "temporal", "not in, nulls"),
)
"""Shapes that are tried whatever the day."""

FEW_MAX = 60
"""Rows that one of these may look at, far less than there are."""

ALL_ROWS_HAVE_ONE_KEY = {
    "join with a guarded division": "12 DIV w is 0 beyond 12",
    "rollup of moments": "the total is a group of all rows",
    "nothing read, intersect": "all rows are equal",
    "nothing read, except": "all rows are equal",
    "composed:13": "a key is true or false",
    "composed:101": "all groups have as many rows, and are joined by that",
}
"""By what is in them, which nobody can say before."""


def _names() -> list[str]:
    shapes = SHAPES if IS_LONG else [shape for shape in SHAPES if shape not in EVERY_DAY]
    every = [*shapes, *(f"composed:{number}" for number in range(COMPOSED))]
    return every[today() % TURNS :: TURNS]


def _case(name: str) -> GeneralCase:
    kind, _, number = name.rpartition(":")
    return composed_case(int(number)) if kind == "composed" else shape_case(name, 1)


@pytest.mark.parametrize("shape", EVERY_DAY)
def test_a_common_shape_looks_at_few_rows(shape: str, lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    few, many = _looked_at(_case(shape), lab, RowCounter(monkeypatch))
    assert 0 < few[0].bound <= FEW_MAX
    assert [each.bound for each in few] == [each.bound for each in many]


def test_a_transaction_looks_at_what_it_changes(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = RowCounter(monkeypatch)
    names = _names()
    unbounded = {name: seen for name in names if (seen := _unbounded(name, lab, counter)) is not None}
    told = {name: f"{seen}\n{_case(name)}" for name, seen in unbounded.items() if name not in ALL_ROWS_HAVE_ONE_KEY}
    assert not told, "\n\n".join([f"{len(told)} of {len(names)}", *map(": ".join, told.items())])
    # What is excused is no more than what needs it.
    assert unbounded.keys() == ALL_ROWS_HAVE_ONE_KEY.keys() & set(names)


REFERRING = {
    "inner": "SELECT a.event_time, a.v, b.w FROM a JOIN b ON a.k = b.k",
    "left": "SELECT a.event_time, a.v, b.w FROM a LEFT JOIN b ON a.k = b.k",
    "full": "SELECT coalesce(a.event_time, b.event_time) AS event_time, a.v, b.w FROM a FULL JOIN b ON a.k = b.k",
    "semi": "SELECT event_time, v FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "anti": "SELECT event_time, v FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.k = a.k)",
    "three": "SELECT a.event_time, a.v, b.w FROM a JOIN b ON a.k = b.k LEFT JOIN b c ON c.k = a.k AND c.w = b.w",
}


@pytest.mark.parametrize("query", REFERRING.values(), ids=REFERRING)
def test_rows_that_refer_to_nothing_are_not_looked_at_for_each_other(
    query: str, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    counter, own = RowCounter(monkeypatch), own_lab(lab)
    inputs = [
        Input(own.folder, alias, input_schema(pa.field("k", pa.int32()), pa.field(value, pa.int32())), number)
        for number, (alias, value) in enumerate((("a", "v"), ("b", "w")), 1)
    ]
    for one in inputs:
        one.add([(A, number, number if number % 4 == 0 else None, number) for number in range(300)])
    derived = Derivative(query, inputs, own.call)
    derived.pull()
    for one in inputs:
        one.add([(A, 1, None, 1), (R, 1, None, 1), (A, 2, None, 1_000)])
        counter.taken()
        derived.pull()
        seen = counter.taken()
        assert max(seen.bound, seen.read) <= MORE_MAX


def test_an_engine_that_reads_everything_is_noticed(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    counter = RowCounter(monkeypatch)
    plain = RowState.of_keys

    def of_keys(state: RowState, hashes: Any) -> pa.Table:
        for _ in state.everything(1_000_000):
            pass
        return plain(state, hashes)

    assert _unbounded("inner", lab, counter) is None
    monkeypatch.setattr(RowState, "of_keys", of_keys)
    assert _unbounded("inner", lab, counter) is not None


def _unbounded(name: str, lab: Lab, counter: RowCounter) -> list[list[LookedAt]] | None:
    """Reads that grow with the number of keys, unless the query is said to do so."""
    case = _case(name)
    few, many = seen = list(_looked_at(case, lab, counter))
    same = all(
        other.bound <= one.bound + MORE_MAX and other.read <= one.read + MORE_MAX
        for one, other in zip(few, many, strict=True)
    )
    return None if same or _is_noted(case, lab) else seen


def _looked_at(case: GeneralCase, lab: Lab, counter: RowCounter) -> Iterator[list[LookedAt]]:
    """Reads for each input's change after the watermark, for few keys, then many."""
    own = own_lab(lab)
    inputs = [Input(own.folder, table.alias, table.schema, at + 1) for at, table in enumerate(case.tables)]
    derived = Derivative(case.query.statements, inputs, own.call, temporal_tables=case.query.temporal)
    for begin, end, changed in zip((0, KEYS[0]), KEYS, CHANGED, strict=True):
        watermark = (end + 1) * DAY
        for one in inputs:
            rows = [_row(one.schema, key) for key in range(begin, end) for _ in range(COPIES)]
            one.add(rows, watermark=watermark)
        derived.pull()
        found = []
        for one in inputs:
            one.add([_row(one.schema, changed)], watermark=watermark)
            counter.taken()
            derived.pull()
            found.append(counter.taken())
        yield found


def _is_noted(case: GeneralCase, lab: Lab) -> bool:
    vocabulary = DatasetVocabulary()
    inputs = [
        QueryInput(alias=each.alias, vocabulary=vocabulary, data_schema=arrow_to_data_schema(each.schema))
        for each in case.tables
    ]
    transform = Derivative(case.query.statements, [], lab.call, temporal_tables=case.query.temporal).transform
    judged = validate_query(ValidateRequest(vocabulary=vocabulary, transform=transform, inputs=tuple(inputs)), lab.call)
    assert not judged.problems
    return bool(judged.notes)


def _row(schema: pa.Schema, key: int) -> tuple[Any, ...]:
    """A row whose columns are all made of the key."""
    columns: Sequence[pa.Field] = list(schema)[3:]
    return (A, *(_value(field.type, key) for field in columns))


def _value(kind: pa.DataType, key: int) -> Any:
    if types.is_string(kind):
        return f"{key}"
    if types.is_boolean(kind):
        return key % 2 == 0
    if types.is_decimal(kind):
        return Decimal(key)
    if types.is_date(kind):
        return dt.date(1970, 1, 1) + dt.timedelta(days=key)
    if types.is_timestamp(kind):
        return key * DAY
    if types.is_list(kind):
        return [key]
    if types.is_struct(kind):
        return {"n": key, "s": f"{key}"}
    return float(key) if types.is_floating(kind) else key
