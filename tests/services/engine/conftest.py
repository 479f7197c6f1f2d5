"""One Spark for all engine tests: starts are slow, sessions are free."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from odfabric_engine_spark.operators.touched_keys.before_and_after import BoundPlan
from odfabric_engine_spark.operators.touched_keys.scan_keys import ScanKeys
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.session import SparkProcess, request_session, start_spark
from odfabric_engine_spark.spark.settings import EngineSettings
from odfabric_engine_spark.sql import gate
from tests.services.engine.engine_process import EngineUnderTest
from tests.services.engine.laws.law_check import Lab
from tests.support.engines.class_archive import class_archive
from tests.support.engines.quick_jvm import JVM_OF_MANY_TESTS


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProcess]:
    """The one Spark; it must be started and stopped by the main thread."""
    exchange = tmp_path_factory.mktemp("exchange")
    settings = EngineSettings(exchange=exchange, memory_mib=2048, jvm_options=JVM_OF_MANY_TESTS, cache=class_archive())
    process = start_spark(settings)
    yield process
    process.stop()


@pytest.fixture(scope="session")
def compat_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineUnderTest]:
    """An engine process that also serves coordinators of the reference."""
    options = ("--compat", "--compat-listen", "127.0.0.1:0")
    process = EngineUnderTest(tmp_path_factory.mktemp("engine"), options=options)
    yield process
    assert process.stop() == 0, process.log.read_text()[-2000:]


@pytest.fixture
def engine_call(spark: SparkProcess, tmp_path: Path) -> EngineCall:
    """A call with its own exchange folder, `tmp_path`; files are named relative to it."""
    settings = EngineSettings(exchange=tmp_path, memory_mib=2048)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    return EngineCall(
        session=request_session(spark.session), exchange=ExchangeFolder.at(tmp_path), settings=settings, scratch=scratch
    )


@pytest.fixture
def interpreted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every query is new, compiling it takes longer than running it."""
    monkeypatch.setitem(gate.GATE_CONF, "spark.sql.codegen.wholeStage", "false")
    monkeypatch.setitem(gate.GATE_CONF, "spark.sql.codegen.factoryMode", "NO_CODEGEN")


@pytest.fixture
def lab(engine_call: EngineCall, tmp_path: Path, interpreted: None) -> Lab:
    return Lab(engine_call, tmp_path)


@pytest.fixture
def colliding(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys have two hashes together."""
    evaluate = ScanKeys.evaluate

    def colliding(self: ScanKeys, rows: pa.Table) -> Any:
        hashes, closes = evaluate(self, rows)
        return hashes % np.uint64(2), closes

    monkeypatch.setattr(ScanKeys, "evaluate", colliding)


@pytest.fixture
def bound(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """How many rows of its scans each job of a stage was handed."""
    found: list[tuple[int, ...]] = []
    plain = BoundPlan.changes

    def counting(self: BoundPlan, *rest: Any, **more: Any) -> Any:
        found.append(tuple(each.rows for each in more["sizes"]))
        return plain(self, *rest, **more)

    monkeypatch.setattr(BoundPlan, "changes", counting)
    return found
