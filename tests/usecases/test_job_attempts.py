"""Which failures use up the attempts of a job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.errors import Determinate
from odfabric.model.engine import IngestRequest, IngestResult
from odfabric.model.job import Job, JobStatus
from odfabric.ports.engine import ProgressListener
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.push_data import PushData
from tests.usecases.manifests import ROOT

ROWS = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}\n'


class DyingEngine(MemoryEngine):
    """An engine that dies under its first ingests."""

    def __init__(self, root: Path, deaths: int, *, blameless: bool) -> None:
        super().__init__(root)
        self.deaths = deaths
        self.blameless = blameless

    def ingest(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        self.deaths -= 1
        if self.deaths >= 0:
            raise Determinate("the engine ends", blameless=self.blameless)
        return super().ingest(request, progress=progress)


def pushed(folder: Path, engine: DyingEngine) -> Job:
    memory = MemoryNode(folder)
    memory.use_engine(engine)
    accepted = memory.node.accept_push(PushData(dataset=memory.add(ROOT).id, body=iter([ROWS])))
    assert isinstance(accepted, Job)
    return memory.finish(accepted)


@pytest.mark.parametrize("more", [1, 50])
def test_deaths_of_an_engine_for_which_others_are_to_blame_use_up_no_attempts(tmp_path: Path, more: int) -> None:
    deaths = MemoryNode(tmp_path).settings.job_attempts_max + more
    job = pushed(tmp_path, DyingEngine(tmp_path / "exchange", deaths, blameless=True))
    assert (job.status, job.attempts) == (JobStatus.SUCCEEDED, 1)


def test_other_deaths_do(tmp_path: Path) -> None:
    deaths = attempts_max = MemoryNode(tmp_path).settings.job_attempts_max
    job = pushed(tmp_path / "too-many", DyingEngine(tmp_path / "too-many/exchange", deaths, blameless=False))
    assert (job.status, job.attempts) == (JobStatus.FAILED, attempts_max)
    assert json.loads(job.error or "")["code"] == Determinate.code
    job = pushed(tmp_path / "few", DyingEngine(tmp_path / "few/exchange", deaths - 1, blameless=False))
    assert (job.status, job.attempts) == (JobStatus.SUCCEEDED, attempts_max)
