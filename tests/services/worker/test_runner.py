"""The runner: what it does without being asked, and how it ends."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.adapters.http.egress import Egress, EgressLimits
from odfabric.adapters.http.webhook import HttpWebhookSender
from odfabric.domain.flows.duties import DutyState
from odfabric.errors import Determinate
from odfabric.model.commit import CatalogEntry, PendingMessage
from odfabric.model.engine import EngineProgress, IngestRequest, IngestResult
from odfabric.model.jobs.duty import Duty
from odfabric.model.jobs.job import Job, JobStatus, Lane
from odfabric.model.subscriptions.subscription import WebhookResponse
from odfabric.ports.engine import ProgressListener
from odfabric.ports.subscriptions.signals import Topic
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring import Node
from odfabric.wiring.upkeep.duties import SeenDuty
from odfabric_worker.runner import Runner, RunnerPace
from tests.support.loopback_http import READ_S_MAX, LoopbackServer, Seen, reply
from tests.support.waiting import wait_until
from tests.usecases.manifests import ROOT

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'
URL = "https://receiver.test/hook"


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def start(memory: MemoryNode) -> Iterator[Callable[[], Runner]]:
    started: list[Runner] = []

    def begin() -> Runner:
        started.append(Runner(memory.node, name=f"worker-{len(started)}", pace=RunnerPace(poll_s=0.01)))
        started[-1].start()
        return started[-1]

    yield begin
    for runner in started:
        assert runner.stop(patience_s=10)


def push(memory: MemoryNode, entry: CatalogEntry, number: int = 0) -> Job:
    row = ROW.replace(b'"A"', f'"{number}"'.encode())
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([row])))
    assert isinstance(job, Job)
    return job


class SlowEngine:
    """Ingests of a node wait here, with signs of life, until `release` is set."""

    def __init__(self, memory: MemoryNode) -> None:
        self.entered, self.release = threading.Event(), threading.Event()
        self._ingest = memory.engine.ingest
        memory.engine.ingest = self._slowly  # type: ignore[method-assign]

    def _slowly(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        self.entered.set()
        while not self.release.wait(0.01):
            progress(EngineProgress(stage="read", done=0, total=0))
        return self._ingest(request, progress=progress)


def test_a_push_is_committed_and_told_to_subscribers(memory: MemoryNode, start: Callable[[], Runner]) -> None:
    entry = memory.add(ROOT)
    memory.node.webhooks.subscribe(entry, url=URL, secret=None, by=memory.node.operator)
    start()
    job = push(memory, entry)
    wait_until(lambda: memory.node.jobs.get(job.id).status is JobStatus.SUCCEEDED, what="the end of the push")
    wait_until(lambda: memory.webhooks.received != [], what="a delivery")
    assert memory.webhooks.received[0].url == URL


def test_a_runner_that_ends_gives_its_job_back_at_once(memory: MemoryNode, start: Callable[[], Runner]) -> None:
    engine = SlowEngine(memory)
    entry = memory.add(ROOT)
    first = start()
    job = push(memory, entry)
    assert engine.entered.wait(10)
    assert first.stop(patience_s=10)
    assert memory.node.jobs.get(job.id).status is JobStatus.QUEUED
    engine.release.set()
    start()
    # The lease would have lasted half a minute.
    wait_until(
        lambda: memory.node.jobs.get(job.id).status is JobStatus.SUCCEEDED, deadline_s=10, what="the second attempt"
    )


def let_the_runner_go_first(memory: MemoryNode) -> None:
    """A signalling sender waits until the runner has looked and waits again.

    This can happen between processes.
    """
    signals = memory.node.ports.signals
    send, wait, waits = signals.send, signals.wait, threading.Event()

    def send_and_be_overtaken(topic: Topic) -> None:
        waits.clear()
        send(topic)
        if threading.current_thread().name.startswith("deliver_"):
            waits.wait(2)

    def wait_openly(topic: Topic, *, timeout_s: float) -> bool:
        if topic is Topic.DELIVERIES:
            waits.set()
        return wait(topic, timeout_s=timeout_s)

    signals.send, signals.wait = send_and_be_overtaken, wait_openly  # type: ignore[method-assign]


def test_a_sender_that_is_free_takes_the_next_delivery_without_a_pause(memory: MemoryNode) -> None:
    entry, count = memory.add(ROOT), 40
    for number in range(count):
        memory.node.webhooks.subscribe(entry, url=f"{URL}/{number}", secret=None, by=memory.node.operator)
    let_the_runner_go_first(memory)
    runner = Runner(memory.node, name="worker", pace=RunnerPace(poll_s=600))
    runner.start()
    try:
        push(memory, entry)
        wait_until(lambda: len(memory.webhooks.received) == count, what="every delivery")
    finally:
        assert runner.stop(patience_s=10)


def test_a_worker_for_heavy_work_commits_and_sends_nothing(memory: MemoryNode, tmp_path: Path) -> None:
    entry = memory.add(ROOT)
    memory.node.webhooks.subscribe(entry, url=URL, secret=None, by=memory.node.operator)
    heavy = Runner(memory.node, name="heavy", pace=RunnerPace(threads={Lane.HEAVY: 1}, poll_s=0.01))
    light = Runner(memory.node, name="light", pace=RunnerPace(threads={Lane.LIGHT: 1}, poll_s=0.01))
    heavy.start()
    try:
        job = push(memory, entry)
        wait_until(lambda: memory.node.jobs.get(job.id).status is JobStatus.SUCCEEDED, what="the end of the push")
        assert memory.node.ports.outbox.pending(limit=9) != []
        light.start()
        second = push(memory, entry, 1)
        wait_until(lambda: len(memory.webhooks.received) == 2, what="both deliveries")
        # What a commit has as its consequence may be sent before the job itself is marked as ended.
        wait_until(lambda: memory.node.jobs.get(second.id).status is JobStatus.SUCCEEDED, what="the end of the second")
    finally:
        assert heavy.stop(patience_s=10)
        assert light.stop(patience_s=10)


def test_duties_are_reported_with_their_failures(memory: MemoryNode, start: Callable[[], Runner]) -> None:
    node, failing = memory.node, threading.Event()
    pending = node.ports.outbox.pending

    def sometimes(*, limit: int) -> Sequence[PendingMessage]:
        if failing.is_set():
            raise Determinate("the database is away")
        return pending(limit=limit)

    node.ports.outbox.pending = sometimes  # type: ignore[method-assign]
    failing.set()
    start()

    def relay() -> SeenDuty:
        return next(each for each in node.duties.seen() if each.duty is Duty.RELAY)

    wait_until(lambda: relay().state is DutyState.FAILS, what="a report of the failure")
    found = relay().report
    assert found is not None
    assert (found.error, found.failing_since, found.worker) == ("the database is away", found.at, "worker-0")
    failing.clear()
    wait_until(lambda: relay().state is DutyState.WORKS, what="a report that it works again")
    wait_until(lambda: {each.state for each in node.duties.seen()} == {DutyState.WORKS}, what="a report of every duty")


def test_ends_do_not_use_up_a_jobs_attempts(memory: MemoryNode, start: Callable[[], Runner]) -> None:
    engine = SlowEngine(memory)
    entry = memory.add(ROOT)
    job = push(memory, entry)
    for _ in range(memory.node.settings.job_attempts_max):
        engine.entered.clear()
        runner = start()
        assert engine.entered.wait(10)
        assert runner.stop(patience_s=10)
    assert memory.node.jobs.get(job.id).status is JobStatus.QUEUED
    engine.release.set()
    start()
    wait_until(lambda: memory.node.jobs.get(job.id).status is JobStatus.SUCCEEDED, what="the end of the push")


def test_a_runner_that_ends_waits_for_what_is_being_sent(memory: MemoryNode, start: Callable[[], Runner]) -> None:
    sending, release = threading.Event(), threading.Event()
    post = memory.webhooks.post

    def slowly(url: str, *, headers: Mapping[str, str], body: bytes) -> WebhookResponse:
        sending.set()
        release.wait(10)
        return post(url, headers=headers, body=body)

    memory.webhooks.post = slowly  # type: ignore[method-assign]
    entry = memory.add(ROOT)
    memory.node.webhooks.subscribe(entry, url=URL, secret=None, by=memory.node.operator)
    runner = start()
    push(memory, entry)
    assert sending.wait(10)
    assert not runner.stop(patience_s=0.1), "it did not tell that something was under way"
    release.set()
    assert runner.stop(patience_s=10)
    assert [one.url for one in memory.webhooks.received] == [URL]


class Hanging:
    """Receivers that answer nothing until `release` is set."""

    def __init__(self) -> None:
        self.release, self.asked = threading.Event(), threading.Semaphore(0)

    def respond(self, _: Seen) -> bytes:
        self.asked.release()
        self.release.wait(READ_S_MAX)
        return reply(204)


def test_receivers_that_hang_do_not_hold_up_one_that_answers(
    memory: MemoryNode, start: Callable[[], Runner], tmp_path: Path
) -> None:
    hanging = Hanging()
    good, evil = LoopbackServer(lambda _: reply(204)), LoopbackServer(hanging.respond)
    crowd = memory.add(ROOT)
    followed = memory.add(ROOT.replace("name: readings", "name: followed"))
    with (
        good.serving(),
        evil.serving(),
        Egress(limits=EgressLimits(ports=(good.port, evil.port)), allow=[good.place, evil.place]) as egress,
    ):
        ports = replace(memory.node.ports, webhooks=HttpWebhookSender(egress, timeout_s=READ_S_MAX))
        memory.node = Node(ports, memory.settings)
        for number in range(100):
            memory.node.webhooks.subscribe(crowd, url=evil.url(f"/{number}"), secret=None, by=memory.node.operator)
        memory.node.webhooks.subscribe(followed, url=good.url(), secret=None, by=memory.node.operator)
        start()
        push(memory, crowd)
        assert hanging.asked.acquire(timeout=10)
        for number in range(3):
            push(memory, followed, number)
            wait_until(lambda sent=number: len(good.seen) > sent, what="a delivery to the one that answers")
        assert not hanging.release.is_set()
        assert len(evil.seen) <= memory.settings.deliveries_at_once_max // 8, "one receiver holds more than its share"
        hanging.release.set()
        wait_until(lambda: len(evil.seen) == 100, deadline_s=30, what="deliveries to those that answer again")


def test_a_failure_of_a_step_does_not_end_the_runner(memory: MemoryNode, start: Callable[[], Runner]) -> None:
    failures = iter([Determinate("the database is away"), RuntimeError("a bug")])
    lease = memory.node.ports.jobs.lease

    def failing(*arguments: object, **options: object) -> object:
        for failure in failures:
            raise failure
        return lease(*arguments, **options)  # type: ignore[arg-type]

    memory.node.ports.jobs.lease = failing  # type: ignore[assignment]
    entry = memory.add(ROOT)
    start()
    job = push(memory, entry)
    wait_until(lambda: memory.node.jobs.get(job.id).status is JobStatus.SUCCEEDED, what="the end of the push")
    assert json.loads(memory.node.jobs.get(job.id).result or "{}")
