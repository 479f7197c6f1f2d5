"""Manifests for `engine: spark` run unchanged, whichever the engine contract."""

from __future__ import annotations

import datetime as dt
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.formats.identifiers.dataset_layout import data_key
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import AddData, ExecuteTransform
from odfabric.settings import Settings
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring import Node, open_node, prepare_workspace
from tests.services.engine.engine_process import EngineUnderTest

pytestmark = pytest.mark.spark

MANIFESTS = (Path(__file__).parents[3] / "cases/spark-manifests/cities.yaml").read_text()
NOON = [Instant.parse(f"2050-01-0{day}T12:00:00Z") for day in (1, 2, 3)]
PULLED = ("cities.tenfold", "cities.large")
DAY_1, DAY_2 = (dt.datetime(2050, 1, day, 12, tzinfo=dt.UTC) for day in (1, 2))
"""Rounds of the reference's own test of engines."""


@dataclass
class Story:
    """A node under a clock that stands still, with the datasets of the manifests."""

    node: Node
    clock: SettableClock
    datasets: dict[str, CatalogEntry]

    def finished(self, job: Job) -> None:
        ended = self.node.jobs.work_until_ended(job, worker="test", listener=lambda _: None)
        assert ended.status is JobStatus.SUCCEEDED, ended.error

    def push(self, csv: str, at: Instant) -> None:
        self.clock.set(at)
        push = PushData(dataset=self.datasets["cities"].id, body=iter([csv.encode()]))
        job = self.node.requests.push(push)
        assert isinstance(job, Job)
        self.finished(job)

    def pull(self, *names: str, at: Instant) -> None:
        self.clock.set(at)
        for entry in (self.datasets[name] for name in names):
            self.finished(self.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias)))

    def slices(self, name: str) -> list[tuple[str, list[tuple[Any, ...]]]]:
        """Logical hash and rows (without the system's columns but op) of each slice."""
        entry, found = self.datasets[name], []
        for link in reversed(list(self.node.datasets.log(entry, limit=100))):
            event = link.block.event
            if isinstance(event, AddData | ExecuteTransform) and event.new_data is not None:
                path = self.node.settings.workspace / "a-slice"
                self.node.ports.objects.materialize(data_key(entry.id, event.new_data.physical_hash), path)
                table = pq.read_table(path).drop_columns(["system_time"])
                path.unlink()
                rows = list(zip(*(column.to_pylist() for column in table.columns), strict=True))
                found.append((str(event.new_data.logical_hash), rows))
        return found


def story(engine: EngineUnderTest, workspace: Path, closing: ExitStack, **settings: Any) -> Story:
    workspace.mkdir()
    (workspace / "exchange").symlink_to(engine.exchange)
    chosen = Settings(workspace=workspace, engines_folder="/opt/engine", **settings)
    prepare_workspace(chosen)
    clock = SettableClock(NOON[0])
    node = closing.enter_context(open_node(chosen, engine=closing.enter_context(engine.client()), clock=clock))
    datasets = {}
    for snapshot in parse_snapshots(MANIFESTS, file="cities.yaml"):
        entry, _ = node.datasets.create(snapshot, node.operator)
        datasets[str(entry.alias).rpartition("/")[2]] = entry
    return Story(node, clock, datasets)


def test_they_run_unchanged_in_both_contracts(compat_engine: EngineUnderTest, tmp_path: Path) -> None:
    with ExitStack() as closing:
        own = story(compat_engine, tmp_path / "own", closing)
        theirs = story(compat_engine, tmp_path / "theirs", closing, engines={"spark": compat_engine.compat_address})
        for each in (own, theirs):
            each.push("city,population\nA,10\nB,20\nC,30\n", at=NOON[0])
            each.pull(*PULLED, at=NOON[1])
            each.push("city,population\nA,10\nC,35\nD,40\nE,50\n", at=NOON[1])
            each.pull(*PULLED, at=NOON[2])
        own.pull("cities.twice", at=NOON[2])
        assert [rows for _, rows in own.slices("cities.tenfold")] == [
            [(0, 0, DAY_1, "A", 100), (1, 0, DAY_1, "B", 200), (2, 0, DAY_1, "C", 300)],
            [
                (3, 1, DAY_1, "B", 200),
                (4, 2, DAY_1, "C", 300),
                (5, 3, DAY_2, "C", 350),
                (6, 0, DAY_2, "D", 400),
                (7, 0, DAY_2, "E", 500),
            ],
        ]
        assert [row[1:] for row in own.slices("cities.large")[1][1]] == [
            (1, DAY_1, "M", "b"),
            (2, DAY_1, "L", "c"),
            (3, DAY_2, "L", "c"),
            (0, DAY_2, "L", "d"),
            (0, DAY_2, "L", "e"),
        ]
        assert [len(rows) for _, rows in own.slices("cities.twice")] == [16]
        for name in ("cities", *PULLED):
            assert theirs.slices(name) == own.slices(name)
        large = theirs.datasets["cities.large"]
        job = theirs.node.requests.verify(large, VerifyOptions())
        ended = theirs.node.jobs.work_until_ended(job, worker="test", listener=lambda _: None)
        assert ended.result == '{"ok": true, "errors": []}'
