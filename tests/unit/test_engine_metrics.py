"""What a process of the node tells about its engine."""

from __future__ import annotations

from dataclasses import replace

from odfabric.errors import Determinate
from odfabric.model.engine import EngineInfo
from odfabric.wiring.metrics import EngineCollector

INFO = EngineInfo(name="n", version="1", digest="d", spark_version="4", java_version="17", sandbox=("seccomp",))


def samples(info: EngineInfo | None) -> dict[str, float]:
    found = [sample for metric in EngineCollector(lambda: info).collect() for sample in metric.samples]
    return {f"{sample.name}{sorted(sample.labels.values())}": sample.value for sample in found}


def test_executors_are_told_where_there_is_a_cluster() -> None:
    walls = {"odf_engine_sandbox['seccomp']": 1.0}
    assert samples(INFO) == walls
    assert samples(replace(INFO, executors=3)) == walls | {"odf_engine_executors[]": 3.0}
    assert samples(replace(INFO, executors=0)) == walls | {"odf_engine_executors[]": 0.0}, "none is told, not left out"


def test_an_engine_that_does_not_run_tells_nothing() -> None:
    def away() -> EngineInfo:
        raise Determinate("the engine is away")

    assert samples(None) == {}
    assert list(EngineCollector(away).collect()) == []
