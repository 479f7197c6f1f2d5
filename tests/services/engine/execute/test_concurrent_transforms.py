"""Concurrent transforms in one engine share plans, threads and files, not rows."""

from __future__ import annotations

import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from odfabric.adapters.grpc_engine.engine import GrpcEngine
from odfabric.model.engine import EngineProgress, TransformResult
from tests.services.engine.engine_process import EngineUnderTest
from tests.services.engine.transforming import CF, CT, HOUR, A, Input, R, Requests, Transaction, input_schema, written

pytestmark = pytest.mark.spark

SCHEMA = input_schema(pa.field("k", pa.string()), pa.field("v", pa.int64()))
GROUPED = "select max(event_time) as event_time, k, sum(v) as total, count(*) as n from input group by k"
JOINED = "select l.event_time, l.k, l.v, r.v as next from input l left join input r on l.k = r.k and r.v = l.v + 1"
QUERIES = {
    "grouped": GROUPED,
    "grouped again": GROUPED,
    "grouped once more": GROUPED,
    "joined": JOINED,
    "joined again": JOINED,
    "linear": "select event_time, k, v * 10 as w from input where v % 3 = 1",
    "ranked": "select * from (select event_time, k, v, row_number() over (partition by k order by v desc) as at from input) where at < 4",
    "hours": "select window.start as event_time, sum(v) as total from input group by window(event_time, '1 hour')",
}
"""Derivatives by name. Those of one kind have one query, but each an input with rows of its own."""

BLOCKS = 3
ROWS = 400


def input_of(folder: Path, number: int) -> Input:
    """An input with rows that no other has.

    All have one name, so that those of one query have one plan.
    """
    own = folder / f"own-{number}"
    own.mkdir()
    one = Input(own, "input", SCHEMA, number=number + 1)
    for block in range(BLOCKS):
        rows: list[tuple[Any, ...]] = [
            (A, block * HOUR + at, f"key {at % 40}", 1_000_000 * number + ROWS * block + at) for at in range(ROWS)
        ]
        if block:
            corrected, retracted = one.rows[-2][3:], one.rows[-1][3:]
            rows += [(CF, *corrected), (CT, *corrected[:2], -corrected[2]), (R, *retracted)]
        one.add(rows, watermark=block * HOUR)
    return one


class Served(Requests):
    """A derivative dataset that is made by an engine process.

    Its files have a folder of their own.
    """

    def __init__(self, engine: EngineUnderTest, client: GrpcEngine, number: int, query: str) -> None:
        super().__init__(query, [_seen(input_of(engine.exchange, number), number)], name=f"own-{number}/out")
        self._exchange = engine.exchange
        self._client = client

    def pull(self, upto: int) -> Transaction:
        request = self.request([upto])
        result = self._client.execute_transform(request, progress=_ignore)
        self.taken = [upto]
        self.transactions.append(written(request, result, self._exchange))
        return self.transactions[-1]


def _seen(one: Input, number: int) -> Input:
    """With paths of the exchange folder."""
    one.slices[:] = [replace(each, path=f"own-{number}/{each.path}") for each in one.slices]
    return one


def _ignore(progress: EngineProgress) -> None:
    pass


@dataclass(frozen=True)
class Made:
    """What a transaction must have, whatever else the engine does."""

    records: list[tuple[Any, ...]]
    slice_hash: str
    checkpoint_hash: str
    result: TransformResult


def _made(derivative: Served, upto: int) -> Made:
    found = derivative.pull(upto)
    slice_hash, checkpoint_hash = (
        hashlib.sha256(path.read_bytes()).hexdigest() for path in (found.slice_path, found.checkpoint_path)
    )
    return Made(found.records, slice_hash, checkpoint_hash, found.result)


def made_by_an_engine(folder: Path, *, at_once: bool) -> dict[str, list[Made]]:
    """The transactions of all derivatives, by a process of their own."""
    engine = EngineUnderTest(folder)
    threads = len(QUERIES) if at_once else 1
    together = threading.Barrier(threads)

    def all_of(derivative: Served) -> list[Made]:
        together.wait(60)
        return [_made(derivative, upto) for upto in range(1, BLOCKS + 1)]

    with engine.client() as client, ThreadPoolExecutor(threads) as pool:
        served = [Served(engine, client, number, query) for number, query in enumerate(QUERIES.values())]
        made = dict(zip(QUERIES, pool.map(all_of, served), strict=True))
    assert engine.stop() == 0
    return made


def test_transforms_at_once_do_not_see_each_other(tmp_path: Path) -> None:
    in_turn = made_by_an_engine(tmp_path / "in-turn", at_once=False)
    at_once = made_by_an_engine(tmp_path / "at-once", at_once=True)
    for name, transactions in in_turn.items():
        assert any(each.records for each in transactions), name
        assert at_once[name] == transactions, name
    rows = {name: repr([each.records for each in transactions]) for name, transactions in in_turn.items()}
    assert len(set(rows.values())) == len(QUERIES), "each has rows that no other has"
