"""Divided histories on the real engine give the net rows of one transaction."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import TransformRequest, TransformResult, ValidateRequest, ValidateResult
from odfabric.model.metadata import ExecuteTransform
from odfabric.ports.engine import ProgressListener
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric_engine_spark.execute.execute_transform import execute_transform
from odfabric_engine_spark.execute.validate_query import judge_query
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.session import SparkProcess, request_session
from odfabric_engine_spark.spark.settings import EngineSettings
from tests.usecases.manifests import ROOT
from tests.usecases.transform.test_pull_dataset import pull, push, verify

pytestmark = pytest.mark.spark

JOINED = """
  SELECT greatest(o.event_time, p.event_time) AS event_time, o.city, o.value * p.value AS product
  FROM orders o JOIN prices p ON o.city = p.city
"""
SUMMED = "SELECT max(event_time) AS event_time, city, sum(product) AS product, count(*) AS n FROM joined GROUP BY city"
WINDOWS = """
  SELECT window.start AS event_time, city, sum(value) AS total FROM orders GROUP BY window(event_time, '1 day'), city
"""


class SparkTransforms(MemoryEngine):
    """Reads files itself and leaves queries to Spark, in this process."""

    def __init__(self, root: Path, spark: SparkProcess) -> None:
        super().__init__(root)
        scratch = root / "scratch"
        scratch.mkdir(parents=True)
        self._call = EngineCall(
            session=request_session(spark.session),
            exchange=ExchangeFolder.at(root),
            settings=EngineSettings(exchange=root, memory_mib=2048),
            scratch=scratch,
        )

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        return execute_transform(request, self._call)

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        return judge_query(request, self._call)


@pytest.fixture
def memory(tmp_path: Path, spark: SparkProcess) -> MemoryNode:
    memory = MemoryNode(tmp_path)
    memory.use_engine(SparkTransforms(tmp_path / "exchange", spark))
    return memory


def derived(memory: MemoryNode, name: str, query: str, *inputs: str) -> CatalogEntry:
    refs = ", ".join(f"{{datasetRef: {one}, alias: {one.removesuffix('.parts')}}}" for one in inputs)
    return memory.add(f"""
kind: DatasetSnapshot
version: 1
content:
  name: {name}
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs: [{refs}]
    transform: {{kind: Sql, engine: spark, query: {json.dumps(query)}}}
""")


def limit(memory: MemoryNode, rows_max: int) -> None:
    memory.settings = memory.settings.model_copy(update={"transform_rows_max": rows_max})
    memory.restart()


def rows(day: int, *values: tuple[str, int]) -> str:
    moment = f"2026-01-{day:02}T00:00:00Z"
    return "".join(json.dumps({"event_time": moment, "city": city, "value": value}) + "\n" for city, value in values)


def net(memory: MemoryNode, entry: CatalogEntry) -> Counter[str]:
    """Rows that are left, without their system columns."""
    asked = ReadTail(skip=0, limit=10_000, data_format="JsonAoS", schema_format=None)
    found: Counter[str] = Counter()
    data: Any = memory.node.rows.tail(entry, asked)["data"]
    for row in data:
        plain = {name: value for name, value in row.items() if name not in ("offset", "op", "system_time")}
        found[json.dumps(plain, sort_keys=True)] += 1 if row["op"] in (0, 3) else -1
    return Counter({row: count for row, count in found.items() if count})


def transactions(memory: MemoryNode, entry: CatalogEntry) -> int:
    links = memory.node.datasets.log(entry, limit=1000)
    return sum(isinstance(link.block.event, ExecuteTransform) for link in links)


def bytes_in_hand(memory: MemoryNode, bytes_max: int) -> None:
    memory.settings = memory.settings.model_copy(update={"transform_bytes_max": bytes_max})
    memory.restart()


def test_net_rows_do_not_depend_on_what_may_be_in_hand(memory: MemoryNode) -> None:
    orders = memory.add(ROOT.replace("name: readings", "name: orders"))
    prices = memory.add(ROOT.replace("name: readings", "name: prices"))
    for day in range(1, 9):
        push(memory, orders, rows(day, ("Kyiv", day), ("Lviv", 2 * day)))
        push(memory, prices, rows(day, ("Kyiv", 10 + day)))

    def chain(suffix: str) -> list[CatalogEntry]:
        joined = derived(memory, f"joined{suffix}", JOINED, "orders", "prices")
        summed = derived(memory, f"summed{suffix}", SUMMED, f"joined{suffix}")
        for entry in (joined, summed):
            pull(memory, entry)
        return [joined, summed]

    whole = chain("")
    bytes_in_hand(memory, 400)
    parts = chain(".parts")
    assert transactions(memory, whole[0]) == 1
    assert transactions(memory, parts[0]) > 2
    assert [net(memory, entry) for entry in parts] == [net(memory, entry) for entry in whole]
    assert all(net(memory, entry) for entry in whole)
    assert [verify(memory, entry) for entry in parts] == [{"ok": True, "errors": []}] * 2


def test_net_rows_do_not_depend_on_the_size_of_transactions(memory: MemoryNode) -> None:
    orders = memory.add(ROOT.replace("name: readings", "name: orders"))
    prices = memory.add(ROOT.replace("name: readings", "name: prices"))
    push(memory, orders, rows(1, ("Kyiv", 1), ("Lviv", 2)))
    push(memory, prices, rows(1, ("Kyiv", 10)))
    push(memory, orders, rows(2, ("Kyiv", 3)))
    push(memory, prices, rows(3, ("Lviv", 20), ("Kyiv", 11)))
    push(memory, orders, rows(4, ("Lviv", 4), ("Oslo", 5)))

    def chain(suffix: str) -> list[CatalogEntry]:
        joined = derived(memory, f"joined{suffix}", JOINED, "orders", "prices")
        summed = derived(memory, f"summed{suffix}", SUMMED, f"joined{suffix}")
        windows = derived(memory, f"windows{suffix}", WINDOWS, "orders")
        for entry in (joined, summed, windows):
            pull(memory, entry)
        return [joined, summed, windows]

    whole = chain("")
    limit(memory, 2)
    parts = chain(".parts")
    assert [transactions(memory, entry) for entry in whole] == [1, 1, 1]
    assert [transactions(memory, entry) > 1 for entry in parts] == [True, True, True]
    assert [net(memory, entry) for entry in parts] == [net(memory, entry) for entry in whole]
    assert all(net(memory, entry) for entry in whole)
    assert [verify(memory, entry) for entry in parts] == [{"ok": True, "errors": []}] * 3
