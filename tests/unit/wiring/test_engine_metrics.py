"""What a process of the node gives about its engine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from prometheus_client import generate_latest

from odfabric.errors import Determinate
from odfabric.model.engine import EngineInfo
from odfabric.settings import Settings
from odfabric.wiring import open_node, prepare_workspace
from odfabric.wiring.monitoring.metrics import EngineCollector

INFO = EngineInfo(name="n", version="1", digest="d", spark_version="4", java_version="17", sandbox=("seccomp",))


def samples(info: EngineInfo | None) -> dict[str, float]:
    found = [sample for metric in EngineCollector(lambda: info).collect() for sample in metric.samples]
    return {f"{sample.name}{sorted(sample.labels.values())}": sample.value for sample in found}


def test_executors_are_told_where_there_is_a_cluster() -> None:
    walls = {"odf_engine_sandbox['seccomp']": 1.0, "odf_engine_up[]": 1.0}
    assert samples(INFO) == walls
    assert samples(replace(INFO, executors=3)) == walls | {"odf_engine_executors[]": 3.0}
    assert samples(replace(INFO, executors=0)) == walls | {"odf_engine_executors[]": 0.0}, "none is told, not left out"


def test_an_engine_that_does_not_run_tells_nothing_else() -> None:
    def away() -> EngineInfo:
        raise Determinate("the engine is away")

    assert samples(None) == {}
    (is_up,) = [sample for metric in EngineCollector(away).collect() for sample in metric.samples]
    assert (is_up.name, is_up.value) == ("odf_engine_up", 0.0), "one that should run and does not"


def test_whoever_looks_at_the_metrics_of_a_workspace_starts_no_engine(tmp_path: Path) -> None:
    settings = Settings(workspace=tmp_path / "workspace", engine_start_s_max=0.0)
    prepare_workspace(settings)
    with open_node(settings) as node:
        assert b"odf_engine_sandbox{" not in generate_latest(node.status.registry)
    assert not (settings.workspace / "engine.log").exists()
