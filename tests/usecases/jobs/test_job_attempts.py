"""Which failures use up the attempts of a job."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.memory.sources.egress import MemoryPage
from odfabric.errors import Determinate
from odfabric.model.engine import IngestRequest, IngestResult
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.instant import NANOS_PER_MILLI, Instant
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.ports.engine import ProgressListener
from odfabric.testing.memory_node import START, MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.jobs.run_job import LASTING_ATTEMPTS_MAX, RetryRule
from odfabric.wiring.jobs.waiting import waited_for
from tests.usecases.manifests import POLLED, ROOT

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
    accepted = memory.node.requests.push(PushData(dataset=memory.add(ROOT).id, body=iter([ROWS])))
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


def later(moment: Instant, millis: int) -> Instant:
    return Instant(moment.epoch_ns + millis * NANOS_PER_MILLI)


PAGE = "https://site.example/rows.ndjson"
FROM_PAGE = POLLED.replace("{kind: FilesGlob, path: 'arrivals/*.ndjson'}", f"{{kind: Url, url: '{PAGE}'}}")


def polled(folder: Path, page: MemoryPage) -> tuple[MemoryNode, Job]:
    memory = MemoryNode(folder)
    memory.http.pages[PAGE] = page
    entry = memory.add(FROM_PAGE)
    return memory, memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias))


@pytest.mark.parametrize(
    ("statuses", "code"),
    [
        ((408, 425, 429, 500, 503), "unavailable"),
        ((401, 403), "access-denied"),
        ((404, 410), "not-found"),
        ((302, 400, 402, 409, 418, 451), "invalid-request"),
    ],
)
def test_a_source_is_asked_again_only_if_its_answer_may_change(
    tmp_path: Path, statuses: tuple[int, ...], code: str
) -> None:
    for status in statuses:
        memory, job = polled(tmp_path / str(status), MemoryPage(status=status))
        ended = memory.finish(job)
        assert ended.status is JobStatus.FAILED
        assert json.loads(ended.error or "")["code"] == code
        expected = memory.settings.job_attempts_max if code == "unavailable" else 1
        assert (ended.attempts, len(memory.http.requests)) == (expected, expected), status


@pytest.mark.parametrize(
    ("wished_s", "granted_s"), [(None, 0), (0, 0), (120, 120), (600, 600), (601, 600), (86_400, 600)]
)
def test_a_source_is_left_alone_as_long_as_it_wishes_within_a_limit(
    tmp_path: Path, wished_s: int | None, granted_s: int
) -> None:
    memory, job = polled(tmp_path, MemoryPage(status=503, retry_after_s=wished_s))
    assert memory.settings.job_retry_after_s_max == 600
    run = memory.node.jobs.lease("test")
    assert run is not None
    memory.node.jobs.run(run)
    failed_at = memory.node.jobs.get(job.id).updated_at
    if granted_s:
        memory.clock.set(later(failed_at, granted_s * 1000 - 100))
        assert memory.node.jobs.lease("test") is None
    memory.clock.set(later(failed_at, granted_s * 1000 + 100))
    assert memory.node.jobs.lease("test") is not None


@given(
    attempts=st.integers(1, 60),
    pause_s=st.floats(0, 100),
    pause_s_max=st.floats(0, 1000),
    wished_s=st.none() | st.integers(0, 10**7),
    wished_pause_s_max=st.floats(0, 10_000),
)
def test_a_wish_postpones_and_never_hastens(
    attempts: int, pause_s: float, pause_s_max: float, wished_s: int | None, wished_pause_s_max: float
) -> None:
    rule = RetryRule(attempts_max=8, pause_s=pause_s, pause_s_max=pause_s_max, wished_pause_s_max=wished_pause_s_max)
    plain, wished = rule.due_at(attempts, START), rule.due_at(attempts, START, wished_s=wished_s)
    assert plain <= wished <= max(plain, later(START, round(wished_pause_s_max * 1000) + 1))
    if wished_s is not None and wished_s <= wished_pause_s_max:
        assert wished >= later(START, wished_s * 1000)


PEER = "odf+http://data.example/local/readings"


def pulled_from_a_host_that_fails(folder: Path, *, lasting: bool) -> tuple[MemoryNode, Job]:
    memory = MemoryNode(folder)
    memory.conversations.refuse(PEER, "pull", Determinate("there is no host data.example", lasting=lasting))
    alias = DatasetAlias(Name("local"), Name("copy"))
    return memory, memory.node.requests.pull(PullRequest(dataset=None, alias=alias, url=PEER))


@pytest.mark.parametrize("lasting", [True, False], ids=["no-such-host", "no-answer"])
def test_what_lasts_is_tried_once_more_and_what_passes_as_often_as_set(tmp_path: Path, lasting: bool) -> None:
    memory, job = pulled_from_a_host_that_fails(tmp_path, lasting=lasting)
    ended = memory.finish(job)
    expected = LASTING_ATTEMPTS_MAX if lasting else memory.settings.job_attempts_max
    assert (ended.status, ended.attempts) == (JobStatus.FAILED, expected)
    assert "retry" not in json.loads(ended.error or "")


def test_somebody_who_waits_sees_when_the_next_attempt_comes(tmp_path: Path) -> None:
    memory, job = pulled_from_a_host_that_fails(tmp_path, lasting=True)
    memory.settings = memory.settings.model_copy(update={"job_retry_s": 5.0, "job_retry_s_max": 60.0})
    memory.restart()
    run = memory.node.jobs.lease("test")
    assert run is not None
    memory.node.jobs.run(run)
    waiting = memory.node.jobs.get(job.id)
    line = "trying again in 5 s, attempt 2 of 2: there is no host data.example"
    assert json.loads(waiting.error or "")["retry"] == {"pauseS": 5.0, "attempt": 2, "of": 2}
    assert waited_for(waiting, jobs=memory.node.ports.jobs, lease_s=30.0) == {"stage": line}
