"""Jobs with a damaged request end as failed, with one error, and block nobody."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.model.jobs.job import Job, JobKind, JobStatus, NewJob
from odfabric.model.jobs.requests import PullRequest
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from tests.usecases.manifests import ROOT

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}\n'
TEXTS = ("nonsense", "[]", "{}", '{"by": 7}')


def enqueued(memory: MemoryNode, kind: JobKind, text: str) -> Job:
    entry = memory.add(ROOT)
    account = str(memory.node.operator.account.id) if memory.node.operator.account else ""
    new = NewJob(id="damaged", kind=kind, account=account, dataset_id=entry.id, request=text)
    return memory.node.ports.jobs.enqueue(new, now=memory.clock.now())


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("kind", JobKind, ids=lambda kind: kind.value)
def test_the_job_ends_as_failed_and_says_why(tmp_path: Path, kind: JobKind, text: str) -> None:
    memory = MemoryNode(tmp_path)
    ended = memory.finish(enqueued(memory, kind, text))
    assert ended.status is JobStatus.FAILED
    problem = json.loads(ended.error or "")
    assert problem["code"] == "corrupt"
    assert problem["message"].startswith(f"the request of a {kind.value} job is damaged: ")
    assert problem["hint"] == "ask for the work again; this job cannot be done"


@pytest.mark.parametrize("text", TEXTS)
def test_pushes_behind_it_are_committed(tmp_path: Path, text: str) -> None:
    memory = MemoryNode(tmp_path)
    damaged = enqueued(memory, JobKind.PULL, text)
    (entry,) = memory.node.datasets.page(after=None, limit=2)
    pushed = memory.node.requests.push(PushData(dataset=entry.id, body=iter([ROW])))
    assert isinstance(pushed, Job)
    assert memory.finish(pushed).status is JobStatus.SUCCEEDED
    assert memory.node.jobs.get(damaged.id).status is JobStatus.FAILED
    assert memory.finish(memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias))).status.final
