"""Another engine's row-wise output is verified by the reference's meaning.

All other output is said to need that engine.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import TransformRequest, TransformResult, ValidateRequest, ValidateResult
from odfabric.model.metadata import Transform, TransformSql
from odfabric.ports.engine import ProgressListener
from odfabric.testing.memory_node import MemoryNode
from odfabric_engine_spark.spark.session import SparkProcess
from tests.services.engine.laws.test_bounded_transactions import SparkTransforms, derived, rows
from tests.usecases.manifests import ROOT
from tests.usecases.transform.test_pull_dataset import pull, push, verify

pytestmark = pytest.mark.spark

TOTALS = "SELECT max(event_time) AS event_time, city, sum(value) AS total FROM readings GROUP BY city"
NAMED = "SELECT event_time, city, total * 10 AS tens FROM totals WHERE total > 1"
DATED = "SELECT event_time, city, system_time AS came FROM totals"
RANKED = "SELECT event_time, city, rank() OVER (PARTITION BY city ORDER BY total) AS place FROM totals"
DRAWN = "SELECT event_time, city, rand() AS chance FROM totals"


class EngineWithAnother(SparkTransforms):
    """Our engine, except for the query `theirs`: stateless, `meaning` per interval."""

    theirs: str | None = None
    meaning = ""
    keeps_checkpoint = False

    def execute_transform(self, request: TransformRequest, *, progress: ProgressListener) -> TransformResult:
        meant = self._meant(request.transform)
        result = super().execute_transform(replace(request, transform=meant), progress=progress)
        if meant is not request.transform:
            assert request.checkpoint_paths == ()
            if not self.keeps_checkpoint:
                (self._call.exchange.root / request.new_checkpoint_path).unlink()
        return result

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        return super().validate_query(replace(request, transform=self._meant(request.transform)))

    def _meant(self, transform: Transform) -> Transform:
        assert isinstance(transform, TransformSql)
        [*_, step] = transform.queries or ()
        if step.query != self.theirs:
            return transform
        return replace(transform, queries=(replace(step, query=self.meaning),))


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def engine(memory: MemoryNode, spark: SparkProcess) -> EngineWithAnother:
    engine = EngineWithAnother(memory.folder / "exchange", spark)
    memory.use_engine(engine)
    return engine


def made_elsewhere(
    memory: MemoryNode, engine: EngineWithAnother, query: str, meaning: str, *, transactions: int = 2
) -> CatalogEntry:
    """A derivative of totals, corrected once, made by another engine that is gone."""
    engine.theirs, engine.meaning = query, meaning
    readings, totals = memory.add(ROOT), derived(memory, "totals", TOTALS, "readings")
    entry = derived(memory, "elsewhere", query, "totals")
    for day, values in enumerate(([("Kyiv", 1), ("Lviv", 2)], [("Kyiv", 5), ("Lviv", 4)])[:transactions], 1):
        push(memory, readings, rows(day, *values))
        pull(memory, totals)
        pull(memory, entry)
    engine.theirs = None
    return entry


@pytest.mark.parametrize("query", [NAMED, DATED], ids=["corrections are appended", "refused here"])
def test_a_row_wise_query_has_its_meaning_to_the_reference(
    memory: MemoryNode, engine: EngineWithAnother, query: str
) -> None:
    entry = made_elsewhere(memory, engine, query, query.replace("SELECT", "SELECT 0 AS op,"))
    assert verify(memory, entry) == {"ok": True, "errors": []}


@pytest.mark.parametrize(
    ("query", "meaning"),
    [
        (NAMED, NAMED.replace("SELECT", "SELECT 0 AS op,").replace("* 10", "* 11")),
        (DATED, DATED.replace("SELECT", "SELECT 0 AS op,").replace("system_time", "event_time")),
        (RANKED, NAMED.replace("SELECT", "SELECT 0 AS op,").replace("total * 10 AS tens", "1 AS place")),
        (DRAWN, NAMED.replace("SELECT", "SELECT 0 AS op,").replace("total * 10 AS tens", "0.5D AS chance")),
    ],
    ids=["other rows", "refused, other rows", "not row-wise", "refused"],
)
def test_what_has_another_meaning_needs_its_engine_and_is_not_called_wrong(
    memory: MemoryNode, engine: EngineWithAnother, query: str, meaning: str
) -> None:
    entry = made_elsewhere(memory, engine, query, meaning)
    answer: dict[str, Any] = verify(memory, entry)
    assert (answer["ok"], answer["errors"]) == (True, [])
    [skipped] = answer["skipped"]
    assert "needs engine `spark`" in skipped


def test_what_says_that_ours_made_it_is_judged_by_ours(memory: MemoryNode, engine: EngineWithAnother) -> None:
    engine.keeps_checkpoint = True
    entry = made_elsewhere(memory, engine, DATED, DATED.replace("SELECT", "SELECT 0 AS op,"), transactions=1)
    answer: dict[str, Any] = verify(memory, entry)
    [error] = answer["errors"]
    assert (error["kind"], "`system_time` is that of each record" in error["message"]) == ("VerifyTransform", True)
