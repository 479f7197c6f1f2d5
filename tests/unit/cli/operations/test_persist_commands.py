"""`odf persist`: reports about shards, and what the metrics count."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from odfabric.adapters.persist.location import PersistLocation
from odfabric.adapters.persist.metrics import PersistCollector
from odfabric.cli.app import main
from odfabric.settings import Settings
from odfabric.wiring import prepare_workspace
from odfabric.wiring.jobs.indexes import persist_location
from odfabric_persist.batch import BatchLimits, Parts
from odfabric_persist.client import Shard
from odfabric_persist.rows import DIFF, TIME, RowCodec

CODEC = RowCodec(pa.schema([pa.field("key", pa.string())]), ("key",))


def rows(key: str, time: int) -> pa.Table:
    return pa.table({"key": [key], TIME: [time], DIFF: [1]}, CODEC.update_schema)


class Command:
    """`odf persist` on one workspace."""

    def __init__(self, workspace: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.workspace = workspace
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> str:
        assert main(["--workspace", str(self.workspace), "persist", *arguments]) == code
        out, self.err = self._capsys.readouterr()
        return out

    def json(self, *arguments: str, code: int = 0) -> Any:
        return json.loads(self(*arguments, "-o", "json", code=code))


@pytest.fixture
def location(tmp_path: Path) -> Iterator[PersistLocation]:
    settings = Settings(workspace=tmp_path / "workspace")
    prepare_workspace(settings)
    with closing(persist_location(settings)) as found:
        yield found


@pytest.fixture
def shard(location: PersistLocation) -> Shard:
    shard = location.client().open("numbers", CODEC)
    shard.open_reader("reader")
    writer = shard.open_writer("writer")
    for time in range(3):
        writer.compare_and_append(rows(f"k{time}", time), time, time + 1)
    return shard


@pytest.fixture
def odf(location: PersistLocation, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path / "workspace", capsys)


def leak(shard: Shard) -> str:
    """Write a part and die."""
    part = Parts(shard.machine, CODEC, BatchLimits(inline_bytes_max=0)).write(rows("lost", 9))
    assert part.key is not None
    return part.key


def test_a_shard_is_shown(odf: Command, shard: Shard) -> None:
    found = odf.json("inspect", "numbers")
    assert (found["shard"], found["since"], found["upper"], found["seqno"]) == ("numbers", 0, 3, shard.newest().seqno)
    assert [batch["rows"] for batch in found["batches"]] == [1, 1, 1]
    assert set(found["readers"]) == {"reader"}
    text = odf("inspect", "numbers")
    assert "times:     0 to before 3" in text
    assert "writer" in text


def test_a_shard_that_is_not_there_is_named(odf: Command) -> None:
    odf("inspect", "nobody", code=1)
    assert "shard not found: nobody" in odf.err
    assert "odf persist usage" in odf.err
    odf("verify", "nobody", code=1)


def test_usage_and_leaks(odf: Command, shard: Shard) -> None:
    key = leak(shard)
    (used,) = odf.json("usage")
    assert (used["shard"], used["young"]["blobs"], used["leaked"]["blobs"]) == ("numbers", 1, 0)
    assert "numbers" in odf("usage")
    assert odf.json("leaks") == []
    (found,) = odf.json("leaks", "--older-than", "0")
    assert found["key"] == key
    assert odf.json("leaks", "--older-than", "0", "--remove") == [found]
    assert odf.json("leaks", "--older-than", "0") == []
    assert odf.json("verify")["ok"]


def test_damage_is_an_exit_code(odf: Command, shard: Shard) -> None:
    assert odf.json("verify", "numbers")["shards"][0]["parts"] == 3
    shard.maintain()
    for key in shard.newest().rollups.values():
        shard.machine.blob.set(key, b"{}")
    found = odf.json("verify", code=1)
    assert not found["ok"]
    assert "damaged" in found["shards"][0]["problems"][0]
    assert "damaged" in odf("verify", code=1)


def test_a_folder_that_is_no_workspace_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    odf = Command(tmp_path / "elsewhere", capsys)
    odf("usage", code=1)
    assert "workspace not found" in odf.err
    assert not odf.workspace.exists()


def test_calls_of_the_stores_are_metrics(location: PersistLocation, shard: Shard) -> None:
    registry = CollectorRegistry()
    registry.register(PersistCollector(location.meter))
    before = location.meter.calls["consensus.compare_and_set"]
    shard.open_reader("another")
    text = generate_latest(registry).decode()
    assert f'odf_persist_calls_total{{operation="consensus.compare_and_set"}} {before + 1}.0' in text
    assert 'odf_persist_bytes_total{operation="blob.set"}' in text
    assert "odf_persist_dollars_total" in text
