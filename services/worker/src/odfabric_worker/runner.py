"""The runner: does jobs, relays commits, sends deliveries, until stopped.

Owns the threads of the worker process and their pace; what they do is in the use cases. Invariant: the runner remembers nothing.
A job that is being done is held by a lease, prolonged while its thread lives, so a runner that is killed loses no work: another
one takes the lease when it expires. Not here: the order of retries and attempts (`usecases.jobs.run_job`, `usecases.subscriptions.deliver`).
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial

from odfabric.domain.flows.duties import ROUND_S
from odfabric.domain.subscriptions.delivery_shares import UnderWay, avoided, sure
from odfabric.errors import OdfError
from odfabric.model.jobs.duty import Duty
from odfabric.model.jobs.job import Job, Lane
from odfabric.model.subscriptions.subscription import Avoided, Delivery
from odfabric.ports.subscriptions.signals import Topic
from odfabric.wiring import Node

_log = logging.getLogger(__name__)

PAUSE_AFTER_FAILURE_S = 1.0
FINISHED_LOOK_S = 0.2
"""Pause between two looks at a job that another thread or worker does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerPace:
    """Threads per lane, and the pause between their looks for jobs.

    They look for jobs by themselves; the pause is in seconds between looks at an empty table without a signal."""

    threads: Mapping[Lane, int] = field(default_factory=lambda: {Lane.HEAVY: 2, Lane.LIGHT: 1})
    poll_s: float


@dataclass(frozen=True, slots=True)
class _Round:
    """The loop of one thread: a step, a pause if there was nothing to do, its duty."""

    label: str
    step: Callable[[], bool]
    pause: Callable[[], object]
    duty: Duty | None = None


@dataclass(frozen=True, slots=True)
class _Sending:
    """A delivery that a sender has been given."""

    future: Future[None]
    holds: UnderWay


class Runner:
    """Runs until `stop` is set. `name` is this worker's in leases."""

    def __init__(self, node: Node, *, name: str, pace: RunnerPace) -> None:
        self._node = node
        self._name = name
        self._pace = pace
        self._schedule_pause_s = 0.0
        self._stop = threading.Event()
        self._sending: list[_Sending] = []
        self._senders = ThreadPoolExecutor(node.settings.deliveries_at_once_max, thread_name_prefix="deliver")
        pause = partial(self._pause, pause_s=pace.poll_s)
        jobs: list[_Round] = [
            _Round(f"jobs-{number}", partial(self.one_job, lane), partial(pause, Topic.JOBS))
            for number, lane in enumerate(lane for lane, count in pace.threads.items() for _ in range(count))
        ]
        light = [
            _Round("outbox", self._relay, partial(pause, Topic.OUTBOX), Duty.RELAY),
            _Round("deliveries", self._deliver, partial(pause, Topic.DELIVERIES), Duty.DELIVER),
            _Round("flows", self._schedule, self._pause_schedule, Duty.SCHEDULE),
            _Round("audit", self._flush_audit, lambda: None, Duty.AUDIT),
            _Round("search", self._catch_up_search, partial(self._stop.wait, ROUND_S[Duty.INDEX]), Duty.INDEX),
            _Round("housekeeping", self._keep_house, partial(self._stop.wait, ROUND_S[Duty.COLLECT]), Duty.COLLECT),
        ]
        self._threads = [
            threading.Thread(target=self._loop, args=(each,), name=each.label, daemon=True)
            for each in jobs + (light if Lane.LIGHT in pace.threads else [])
        ]

    def start(self) -> None:
        """Start all threads."""
        for thread in self._threads:
            thread.start()

    def stop(self, *, patience_s: float) -> bool:
        """Ask all threads to end, jobs at their next sign of life.

        Whether they did within the patience.

        What ends gives its job back at once; what does not keeps it until the lease ends.
        """
        end = time.monotonic() + patience_s
        self._stop.set()
        for topic in Topic:
            self._node.ports.signals.send(topic)
        for thread in self._threads:
            thread.join(max(0.0, end - time.monotonic()))
        self._senders.shutdown(wait=False, cancel_futures=True)
        self._node.flows.release(self._name)
        sent = wait([sending.future for sending in self._sending], timeout=max(0.0, end - time.monotonic()))
        return not sent.not_done and not any(thread.is_alive() for thread in self._threads)

    def _pause(self, topic: Topic, *, pause_s: float) -> None:
        self._node.ports.signals.wait(topic, timeout_s=pause_s)

    def _loop(self, each: _Round) -> None:
        self._report(each, None)  # there is a worker for it, though its first round may end late
        while not self._stop.is_set():
            try:
                busy = each.step()
            except OdfError as error:
                _log.warning("%s: %s", each.label, error)
                self._report(each, str(error))
                self._stop.wait(PAUSE_AFTER_FAILURE_S)
                continue
            except Exception as bug:  # noqa: BLE001  # a bug in one step must not end the worker
                _log.exception("%s failed", each.label)
                self._report(each, f"a bug ({type(bug).__name__}); the worker's log says more")
                self._stop.wait(PAUSE_AFTER_FAILURE_S)
                continue
            self._report(each, None)
            if not busy and not self._stop.is_set():
                each.pause()

    def _report(self, each: _Round, error: str | None) -> None:
        if each.duty is not None and not self._stop.is_set():
            self._node.duties.ended(each.duty, self._name, error=error)

    def one_job(self, lane: Lane, taken: Callable[[], object] = lambda: None) -> bool:
        """Do the next job of the lane that is ready, if there is one.

        `taken` is called when it is ours, before it is done.
        """
        run = self._node.jobs.lease(f"{self._name}/{threading.current_thread().name}", lane=lane)
        if run is None:
            return False
        taken()
        run.stopping = self._stop.is_set
        self._node.jobs.run(run)
        return True

    def _relay(self) -> bool:
        return self._node.background.relay_outbox() > 0

    def _schedule(self) -> bool:
        self._schedule_pause_s = self._node.flows.step(self._name)
        return self._schedule_pause_s == 0.0

    def _pause_schedule(self) -> None:
        self._pause(Topic.FLOWS, pause_s=self._schedule_pause_s)

    def _deliver(self) -> bool:
        """Hand due deliveries to free senders.

        Some to receivers that have proven themselves, then one to any, as long as there are some.
        """
        senders, is_busy = self._node.settings.deliveries_at_once_max, False
        while not self._stop.is_set():
            portion = sure(self._under_way(), senders=senders)
            handed = portion is not None and self._lease(*portion)
            full = avoided(self._under_way(), senders=senders)
            handed |= full is not None and self._lease(full, 1)
            if not handed:
                break
            is_busy = True
        return is_busy

    def _under_way(self) -> list[UnderWay]:
        self._sending = [sending for sending in self._sending if not sending.future.done()]
        return [sending.holds for sending in self._sending]

    def _lease(self, full: Avoided, limit: int) -> bool:
        due = self._node.webhooks.due(self._name, limit=limit, avoided=full)
        for delivery in due:
            self._hand_over(delivery)
        return bool(due)

    def _hand_over(self, delivery: Delivery) -> None:
        holds = self._node.webhooks.under_way(delivery)
        if holds is None:
            self._send(delivery)  # its subscription is gone, so nothing is sent
        else:
            future = self._senders.submit(self._send, delivery)
            self._sending.append(_Sending(future, holds))
            # A sender is free only once its future is done, and then the next delivery of the subscription may go.
            future.add_done_callback(lambda _: self._node.ports.signals.send(Topic.DELIVERIES))

    def _send(self, delivery: Delivery) -> None:
        try:
            self._node.background.deliver(delivery)
        except Exception:  # noqa: BLE001  # the lease ends and another attempt is made
            _log.exception("delivery %s", delivery.id)

    def _flush_audit(self) -> bool:
        """After a pause, push new entries of the audit.

        What is not committed when the worker stops is pushed again by the next one.
        """
        stopping = self._stop.wait(self._node.settings.audit_flush_s)
        return not stopping and self._node.audit.flush(self._finished) > 0

    def _finished(self, job: Job) -> Job:
        while not job.status.final and not self._stop.wait(FINISHED_LOOK_S):
            job = self._node.jobs.get(job.id)
        return job

    def _catch_up_search(self) -> bool:
        """What the relay has missed, and what an older release has not derived."""
        self._node.searching.catch_up()
        return False

    def _keep_house(self) -> bool:
        self._node.background.keep_house()
        if self._node.flows.schedules:
            self._node.flows.catch_up()
        return False
