"""Work that meets other work: polls, a cancelled push, a bug, a taken name.

Two polls of one source, a name that is taken elsewhere.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.domain.chain.append import link_blocks
from odfabric.errors import NotFound
from odfabric.formats.identifiers.dataset_layout import alias_key, dataset_prefix, head_key
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.engine import IngestRequest, IngestResult
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job, JobKind, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import SetInfo
from odfabric.ports.engine import ProgressListener
from odfabric.testing.memory_node import START, MemoryNode
from odfabric.usecases.chain.commit import PlannedCommit
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.queries.query_data import QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.support.at_call import AtCall
from tests.usecases.manifests import DERIVED, POLLED, ROOT

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def during_ingest(memory: MemoryNode, act: Callable[[], object]) -> None:
    """Let `act` happen once, while the engine is at the first ingest."""
    ingest, pending = memory.engine.ingest, [act]

    def interrupted(request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        if pending:
            pending.pop()()
        return ingest(request, progress=progress)

    memory.engine.ingest = interrupted  # type: ignore[method-assign]


def rows(memory: MemoryNode, entry: CatalogEntry) -> int:
    tail = memory.node.rows.tail(entry, ReadTail(skip=0, limit=100, data_format="JsonAoS", schema_format=None))
    return len(tail["data"])  # type: ignore[arg-type]


def push(memory: MemoryNode, entry: CatalogEntry) -> Job:
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([ROW])))
    assert isinstance(job, Job)
    return job


def test_two_pulls_that_poll_one_source_take_a_file_once(memory: MemoryNode) -> None:
    polled = memory.add(POLLED.replace("kind: Ledger, primaryKey: [event_time, city]", "kind: Append"))
    derived = memory.add(DERIVED.replace("readings", "polled"))
    memory.files.add("arrivals/1.ndjson", ROW, modified_at=START)
    other = memory.node.requests.pull(PullRequest(dataset=polled.id, alias=polled.alias))
    during_ingest(memory, lambda: memory.finish(other))
    recursive = memory.node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias, recursive=True))
    assert memory.finish(recursive).status is JobStatus.SUCCEEDED
    assert (rows(memory, polled), rows(memory, derived)) == (1, 1)


def test_a_push_that_is_cancelled_while_the_engine_works_commits_nothing(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)
    head = memory.node.datasets.head(entry)
    job = push(memory, entry)
    during_ingest(memory, lambda: memory.node.jobs.cancel(job.id))
    assert memory.finish(job).status is JobStatus.CANCELLED
    assert memory.node.datasets.head(entry) == head


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_push_is_cancelled_or_committed_and_the_answer_is_true(memory: MemoryNode, when: str) -> None:
    entry = memory.add(ROOT)
    at_commit = AtCall(when, "chain.append")
    memory.restart(at_commit)
    job = push(memory, entry)
    told: list[JobStatus] = []
    at_commit.act = lambda: told.append(memory.node.jobs.cancel(job.id).status)
    ended = memory.finish(job)
    if when == "before":
        assert (told, ended.status, rows(memory, entry)) == ([JobStatus.CANCELLED], JobStatus.CANCELLED, 0)
    else:
        assert (told, ended.status, rows(memory, entry)) == ([JobStatus.RUNNING], JobStatus.SUCCEEDED, 1)


def test_a_push_that_is_cancelled_as_its_group_commits_is_left_out(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)
    at_commit = AtCall("before", "chain.append")
    memory.restart(at_commit)
    jobs = [push(memory, entry) for _ in range(3)]
    at_commit.act = lambda: memory.node.jobs.cancel(jobs[1].id)
    ended = [memory.finish(job).status for job in (jobs[0], jobs[2])]
    assert ended == [JobStatus.SUCCEEDED] * 2
    assert memory.node.jobs.get(jobs[1].id).status is JobStatus.CANCELLED
    assert rows(memory, entry) == 2


def test_a_bug_ends_its_job_and_lets_the_next_one_run(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)

    def bug() -> None:
        raise ZeroDivisionError

    during_ingest(memory, bug)
    failed = memory.finish(push(memory, entry))
    assert (failed.status, json.loads(failed.error or "")["code"]) == (JobStatus.FAILED, "internal-error")
    assert memory.finish(push(memory, entry)).status is JobStatus.SUCCEEDED


def test_a_job_that_kills_its_workers_is_given_up(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)
    job = push(memory, entry)
    for _ in range(memory.node.settings.job_attempts_max):
        assert memory.node.jobs.lease("dies") is not None
        memory.clock.advance(31_000)
    ended = memory.finish(job)
    assert ended.status is JobStatus.FAILED
    assert "given up" in json.loads(ended.error or "")["message"]


def test_a_job_that_committed_before_it_died_for_the_last_time_has_succeeded(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)
    job = push(memory, entry)
    for _ in range(memory.node.settings.job_attempts_max - 1):
        memory.node.jobs.lease("dies")
        memory.clock.advance(31_000)
    run = memory.node.jobs.lease("commits, then dies")
    assert run is not None
    memory.node.jobs.verbs[JobKind.PUSH](run.lease.job, run)
    memory.clock.advance(31_000)
    assert memory.finish(job).status is JobStatus.SUCCEEDED
    assert rows(memory, entry) == 1


def test_a_copy_cannot_take_the_place_of_a_dataset_that_is_here(memory: MemoryNode) -> None:
    """A copy cannot replace a dataset that is here.

    A peer names the seed of our own dataset: refused at once, and nothing of ours has changed.
    """
    entry = memory.add(ROOT)
    memory.remotes.publish_store("https://elsewhere.example/x", memory.objects, prefix=dataset_prefix(entry.id))
    alias = DatasetAlias(memory.node.account, Name("second"))
    job = memory.node.requests.pull(PullRequest(dataset=None, alias=alias, url="https://elsewhere.example/x"))
    ended = memory.finish(job)
    problem = json.loads(ended.error or "")
    assert (problem["code"], ended.attempts) == ("already-exists", 1)
    assert problem["message"] == "local/readings is this dataset already"
    assert "`odf pull local/readings`" in problem["hint"]
    assert memory.objects.read_ref(alias_key(entry.id)) == "local/readings"


def test_a_query_touches_no_dataset_whose_name_only_begins_alike(memory: MemoryNode) -> None:
    memory.add(ROOT)
    memory.add(ROOT.replace("name: readings", "name: read"))
    document = memory.node.rows.query_document(QueryData(sql="SELECT * FROM readings"), QueryForm(include=("Input",)))
    assert [found["alias"] for found in document["input"]["datasets"]] == ["readings"]  # type: ignore[index]


def test_a_command_leaves_the_pulls_of_a_node_to_the_node(memory: MemoryNode) -> None:
    """They have other rights to files.

    Its own pull behind it waits until a worker has done the first one.
    """
    polled = memory.add(POLLED)
    memory.files.add("arrivals/1.ndjson", ROW, modified_at=START)
    of_node = memory.node.requests.pull(PullRequest(dataset=polled.id, alias=polled.alias))
    own = memory.node.requests.pull(PullRequest(dataset=polled.id, alias=polled.alias, folder_of_user=Path("/")))
    assert memory.node.jobs.lease_towards(own, "cli") is None
    worker = memory.node.jobs.lease("worker")
    assert worker is not None
    assert worker.lease.job.id == of_node.id
    memory.node.jobs.run(worker)
    assert memory.finish(own).status is JobStatus.SUCCEEDED


def test_staged_bodies_are_collected_only_when_old_and_of_no_unfinished_job(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)
    waiting = push(memory, entry)
    memory.objects.put_bytes("staging/abandoned", b"x")
    assert memory.node.background.keep_house() == 0
    memory.clock.advance(25 * 3600 * 1000)
    assert memory.node.background.keep_house() == 1
    assert memory.finish(waiting).status is JobStatus.SUCCEEDED


def test_a_copy_without_its_inputs_is_verified_as_far_as_can_be(memory: MemoryNode, tmp_path: Path) -> None:
    other = MemoryNode(tmp_path / "other", seed=1)
    root, derived = other.add(ROOT), other.add(DERIVED)
    other.finish(push(other, root))
    other.finish(other.node.requests.pull(PullRequest(dataset=derived.id, alias=derived.alias)))
    memory.remotes.publish_store("https://elsewhere.example/d", other.objects, prefix=dataset_prefix(derived.id))
    alias = DatasetAlias(memory.node.account, Name("copied"))
    memory.finish(memory.node.requests.pull(PullRequest(dataset=None, alias=alias, url="https://elsewhere.example/d")))
    copy = memory.node.datasets.resolve(replace(alias))
    report = json.loads(memory.finish(memory.node.requests.verify(copy, VerifyOptions())).result or "")
    assert (report["ok"], report["errors"]) == (True, [])
    assert str(root.id) in report["skipped"][0]


def describe(memory: MemoryNode, entry: CatalogEntry, text: str) -> None:
    """A commit by nobody's job, such as one of another node."""

    def build(base: Head) -> PlannedCommit:
        state = memory.node.repository.state(entry.id, base.hash)
        return PlannedCommit(tuple(link_blocks(state, [SetInfo(description=text)], system_time=base.system_time)))

    memory.node.commits.commit(entry.id, build)


def test_a_commit_while_it_is_verified_is_no_fault_of_a_dataset(memory: MemoryNode) -> None:
    """The head of record and `refs/head` are read one after the other."""
    entry = memory.add(ROOT)
    at_ref = AtCall("before", "object.ref.read")
    memory.restart(at_ref)
    job = memory.node.requests.verify(entry, VerifyOptions())
    at_ref.act = lambda: describe(memory, entry, "committed meanwhile")
    assert json.loads(memory.finish(job).result or "")["errors"] == []
    assert at_ref.act is None


def test_a_head_that_is_about_to_be_published_is_no_fault_of_a_dataset(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)
    published = memory.objects.read_ref(head_key(entry.id))
    describe(memory, entry, "not published yet")
    head = memory.objects.read_ref(head_key(entry.id))
    assert published is not None
    assert head is not None
    memory.objects.write_ref(head_key(entry.id), published)
    at_block = AtCall("before", "object.block.read")
    memory.restart(at_block)
    job = memory.node.requests.verify(entry, VerifyOptions())
    at_block.act = lambda: memory.objects.write_ref(head_key(entry.id), head)
    assert json.loads(memory.finish(job).result or "")["errors"] == []


def test_of_two_who_store_the_progress_the_later_one_does_not_store_an_older(memory: MemoryNode) -> None:
    """Of two writers of progress the later one does not store an older.

    The thread that keeps a job alive is slow, and the job itself fixes its system time meanwhile.
    """
    entry = memory.add(ROOT)
    _, state = memory.node.repository.current(entry.id)
    at_heartbeat = AtCall("before", "job.heartbeat")
    memory.restart(at_heartbeat)
    job = push(memory, entry)
    run = memory.node.jobs.lease("worker")
    assert run is not None
    fixing = threading.Thread(target=run.system_time, args=(state,), daemon=True)

    def meanwhile() -> None:
        fixing.start()
        fixing.join(0.2)  # it waits for the heartbeat before it, so that here it does not end

    at_heartbeat.act = meanwhile
    run.heartbeat()
    fixing.join(20)
    assert json.loads(memory.node.jobs.get(job.id).progress or "")["base"] == str(state.head)


def test_a_cursor_at_the_start_of_a_dataset_that_goes_finds_none(memory: MemoryNode) -> None:
    entry = memory.add(ROOT)
    memory.restart(AtCall("after", "chain.head", lambda: memory.node.datasets.delete(entry)))
    with pytest.raises(NotFound, match="removed meanwhile"):
        memory.node.cursors.create(entry, "warehouse", start="start")
