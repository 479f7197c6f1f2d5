"""Table functions over datasets in queries: their rows, and what is refused."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfabric.domain.chain.projection import Record, as_of, rows
from odfabric.errors import InvalidQuery
from odfabric.model.engine import QueryInput
from odfabric.model.instant import Instant
from odfabric.model.operation import OperationType
from odfabric.model.table_function import CallRefusal, Projection, TableCall
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.test_raw_query import as_query_input, query
from tests.services.engine.transforming import CF, CT, A, Input, R, input_schema

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.float64()))
TIMES = [-61_000_000_000_000, -1, 0, 1_600_000_000_000, 1_700_000_000_000]
VALUES = [0.0, -0.0, float("nan"), 1.5]
CALL = TableCall("as_of", ("acc/data", "then"))


def changelog(seed: int) -> list[list[tuple[Any, ...]]]:
    """Blocks of a well-formed changelog: rows are corrected, withdrawn, added again."""
    chance = random.Random(seed)
    present: dict[str, tuple[Any, ...]] = {}
    blocks = []
    for _ in range(6):
        block: list[tuple[Any, ...]] = []
        for _ in range(chance.randrange(1, 8)):
            key, row = chance.choice("abcd"), (chance.choice(TIMES), chance.choice(VALUES))
            if key not in present:
                block.append((A, row[0], key, row[1]))
            elif chance.random() < 0.3:
                old = present.pop(key)
                block.append((R, old[0], key, old[1]))
                continue
            else:
                old = present[key]
                block += [(CF, old[0], key, old[1]), (CT, row[0], key, row[1])]
            present[key] = row
        blocks.append(block)
    return blocks


def records_of(blocks: list[list[tuple[Any, ...]]]) -> list[Record]:
    found: list[Record] = []
    for number, block in enumerate(blocks):
        for op, time, key, value in block:
            moment = Instant.from_millis(time)
            found.append(
                Record(
                    block=number,
                    offset=len(found),
                    operation=OperationType(op),
                    event_time=moment,
                    key=key,
                    row=(moment.epoch_ns, key, repr(value)),
                )
            )
    return found


def called(one: Input, **given: Any) -> QueryInput:
    return replace(as_query_input(one), call=CALL, **given)


@pytest.mark.parametrize("keys", [("k",), ()], ids=["keyed", "without-key"])
def test_rows_are_those_of_the_domain(engine_call: EngineCall, tmp_path: Path, keys: tuple[str, ...]) -> None:
    blocks = changelog(7) + changelog(8)[:0]
    one = Input(tmp_path, "acc/data", SCHEMA)
    for block in blocks:
        one.add(block)
    log = records_of(blocks)
    sql = "SELECT unix_millis(event_time) AS t, k, v, offset, op FROM as_of('acc/data', 'then')"
    for time in (TIMES[0] - 1, *TIMES, None):
        moment = None if time is None else Instant.from_millis(time)
        _, found = query(engine_call, (called(one, projection=Projection(keys=keys, as_of=moment)),), sql)
        expected = rows(log if moment is None else as_of(log, moment), keyed=bool(keys))
        assert Counter((row["t"] * 1_000_000, row["k"], repr(row["v"])) for row in found) == expected
        for row in found:
            assert log[row["offset"]].operation == row["op"]


def test_calls_stand_wherever_tables_may(engine_call: EngineCall, tmp_path: Path) -> None:
    one = Input(tmp_path, "acc/data", SCHEMA).add([(A, 0, "x", 1.0), (A, 1, "y", 2.0)])
    inputs = (called(one, projection=Projection(keys=("k",))), as_query_input(one))
    for sql in (
        "SELECT k FROM as_of('acc/data', 'then') AS held JOIN \"acc/data\" USING (k) ORDER BY k",
        "WITH w AS (SELECT * FROM As_Of ( \"acc/data\"\n,\n  'then' )) SELECT k FROM w ORDER BY k",
        "SELECT k FROM (SELECT k, v FROM \"acc/data\") WHERE v IN (SELECT h.v FROM as_of(`acc/data`, 'then') h) ORDER BY k",
        "SELECT a AS k FROM as_of('acc/data', 'then') AS t(o, p, s, e, a, b) ORDER BY 1",
    ):
        _, found = query(engine_call, inputs, sql)
        assert [row["k"] for row in found] == ["x", "y"]


@pytest.mark.parametrize(
    ("sql", "place", "message", "hint"),
    [
        ("SELECT *\nFROM as_of('acc/data')", (2, 6), "written out", "write as_of('account/dataset'"),
        ("SELECT * FROM as_of('acc/data', current_timestamp())", (1, 15), "written out", "write as_of("),
        ("SELECT * FROM as_of('acc/data', 'no' || 'w')", (1, 15), "written out", "write as_of("),
        ("SELECT * FROM to_table('hidden')", (1, 15), "no dataset here", "name another"),
        ("SELECT x FROM\n as_of('acc/data', 'then')", (1, 8), "x", None),
        ("SELECT * FROM read_csv('file')", (1, 15), "not allowed", None),
        ("SELECT as_of('acc/data', 'then')", (1, 8), "as_of", None),
    ],
    ids=["arguments", "function", "expression", "refused", "column", "other-function", "scalar"],
)
def test_what_is_refused_has_a_place(
    engine_call: EngineCall, tmp_path: Path, sql: str, place: tuple[int, int], message: str, hint: str | None
) -> None:
    one = Input(tmp_path, "acc/data", SCHEMA).add([(A, 0, "x", 1.0)])
    hidden = QueryInput(
        alias="",
        vocabulary=as_query_input(one).vocabulary,
        data_schema=None,
        call=TableCall("to_table", ("hidden",)),
        refusal=CallRefusal("no dataset here", "name another"),
    )
    inputs = (called(one, projection=Projection()), hidden)
    with pytest.raises(InvalidQuery) as refused:
        query(engine_call, inputs, sql)
    assert (refused.value.place.line, refused.value.place.column) == place
    assert message in refused.value.message
    assert "_f" not in refused.value.message.replace("as_of", "")
    assert hint is None or hint in (refused.value.hint or "")
