"""Running calls: places, deadlines, cancelling, and giving up.

Owns the few threads on which operations run. Invariant: at a limit the work stops, not only the call: its Spark jobs are
cancelled until thread and tasks are free again, and where that does not help in time the process gives itself up, so that
the supervisor starts a healthy one. Calls that a dying process takes with it are informed whether they may be the reason. Not here: what
operations do (`operations`), how they travel (`servicer`).
"""

from __future__ import annotations

import queue
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from odfabric.errors import Determinate, External, LimitExceeded, OdfError
from odfabric.formats.engine_messages import engine_wire as wire
from odfabric.model.engine import EngineProgress
from odfabric_engine_spark.arrays.kept_files import KeptFiles
from odfabric_engine_spark.arrays.mapped_files import MappedFiles
from odfabric_engine_spark.spark.calls.call import EngineCall, StopSignal
from odfabric_engine_spark.spark.calls.exchange_folder import ExchangeFolder
from odfabric_engine_spark.spark.calls.interruptible_jvm_calls import interruptible
from odfabric_engine_spark.spark.calls.plan_cache import KeptPlans
from odfabric_engine_spark.spark.cluster.executors import Executors
from odfabric_engine_spark.spark.cluster.leftover_tasks import has_leftover_tasks
from odfabric_engine_spark.spark.failures import as_odf_error, is_silence
from odfabric_engine_spark.spark.session import request_session
from odfabric_engine_spark.spark.settings import EngineSettings

ResultT = TypeVar("ResultT")

_PROGRESS_KEPT_MAX = 64
_WATCH_S = 0.1
_HEARTBEAT_S = 1.0
"""Interval of heartbeats. A call without news repeats its last progress, because a client can cancel only when it receives something."""
_BEGUN = EngineProgress(stage="work", done=0, total=0)
_SILENCE = (Py4JError, OSError)
"""What Py4J raises when the JVM does not answer, among others."""


@dataclass(frozen=True, slots=True)
class Finished(Generic[ResultT]):
    """The end of a call: a result, an error, a bug, or `lost`.

    `lost`: the process dies before it has a result.

    `cause` is what the log should tell.
    """

    result: ResultT | None = None
    error: OdfError | None = None
    bug: BaseException | None = None
    lost: Determinate | None = None
    cause: BaseException | None = None


@dataclass(slots=True, kw_only=True)
class RunningCall(Generic[ResultT]):
    """A call that waits for a place or runs.

    `events` is bounded: progress that nobody fetches in time is dropped.
    """

    id: str
    work: Callable[[EngineCall], ResultT]
    output: str | None
    stop: StopSignal = field(default_factory=StopSignal)
    events: queue.Queue[EngineProgress | None] = field(default_factory=lambda: queue.Queue(_PROGRESS_KEPT_MAX))
    finished: Finished[ResultT] | None = None
    done: threading.Event = field(default_factory=threading.Event)

    def tell(self, progress: EngineProgress | None) -> None:
        """Passes progress on if there is room; None only wakes who waits for it."""
        with suppress(queue.Full):
            self.events.put_nowait(progress)

    def progress(self, *, wait_s: float) -> Iterator[EngineProgress]:
        """What was reported so far; waits for something if there is nothing."""
        try:
            event = self.events.get(timeout=wait_s)
            while True:
                if event is not None:
                    yield event
                event = self.events.get_nowait()
        except queue.Empty:
            return


class _Heartbeat:
    """The last progress that was sent, and when."""

    def __init__(self) -> None:
        self.sent(_BEGUN)

    def sent(self, progress: EngineProgress) -> None:
        self.last, self._at = progress, time.monotonic()

    def is_due(self) -> bool:
        if time.monotonic() - self._at < _HEARTBEAT_S:
            return False
        self.sent(self.last)
        return True


class CallRunner:
    """Runs operations on a bounded number of threads, each with a fair share of Spark."""

    def __init__(
        self,
        spark: SparkSession,
        *,
        settings: EngineSettings,
        exchange: ExchangeFolder,
        give_up: Callable[[], None],
        out_of_memory: Callable[[], bool],
        executors: Executors | None = None,
    ) -> None:
        """`out_of_memory` says whether a silent JVM ended for lack of memory.

        `executors` are those of a cluster; a call ends when they are lost.
        """
        self._spark = spark
        self._settings = settings
        self._exchange = exchange
        self._give_up = give_up
        self._out_of_memory = out_of_memory
        self._executors = executors
        # The threads live as long as the process: Spark keeps one thread of its own for each of ours.
        self._threads = ThreadPoolExecutor(settings.calls_at_once_max, thread_name_prefix="call")
        # Apart from who follows a call: a JVM that hangs never answers, and patience must end all the same.
        self._cancels = ThreadPoolExecutor(1, thread_name_prefix="cancel")
        self._plans: KeptPlans[Any] = KeptPlans()
        self._mapped = MappedFiles()
        indexes_max = settings.provenance_index_bytes_max
        self._kept = KeptFiles(exchange.key_indexes, bytes_max=indexes_max) if indexes_max else None
        self._lock = threading.Lock()
        self._present: set[str] = set()
        self._fallen = False
        self._all_left = threading.Condition(self._lock)
        self._ending = False
        self._lost: Determinate | None = None
        self._idle_since = time.monotonic()

    @property
    def idle_s(self) -> float:
        """How long no call has been present; 0 while there is one."""
        with self._lock:
            return 0.0 if self._present else time.monotonic() - self._idle_since

    @property
    def ending(self) -> bool:
        """Whether the process is about to end, so that it takes no more calls."""
        return self._ending

    def refuse(self) -> None:
        """From now on no call is taken."""
        self._ending = True

    def await_calls(self, wait_s: float) -> None:
        """Returns when no call is present, or after `wait_s`."""
        with self._all_left:
            self._all_left.wait_for(lambda: not self._present, wait_s)

    def let_go(self, *, by_others: bool) -> None:
        """Ends all calls without a result, for the process ends.

        Those that are at a limit of theirs hear of that.

        `by_others` says that none of the rest is why it ends.
        """
        self._lost = Determinate(wire.LOST_TO_OTHERS if by_others else wire.BROKE_DOWN, blameless=by_others)

    def let_go_of_removed_files(self) -> None:
        """Unmap files that calls have kept and that were removed, to free their room."""
        self._mapped.give_up_removed()
        if self._kept is not None:
            self._kept.give_up_removed()

    def run(
        self,
        work: Callable[[EngineCall], ResultT],
        *,
        output: str | None,
        wall_s_max: float,
        limit: Callable[[], OdfError],
        caller_waits: Callable[[], bool],
    ) -> Iterator[EngineProgress | Finished[ResultT]]:
        """Runs `work` and yields its progress, last its end.

        `limit` makes the answer when `wall_s_max` has passed since now; the work is cancelled too when `caller_waits` turns
        false. Raises Determinate if too many calls wait, or the process is about to end.
        """
        if self._ending:
            raise Determinate(wire.ENDS, blameless=True)
        call = RunningCall(id=uuid.uuid4().hex, work=work, output=output)
        self._enter(call.id)
        try:
            self._threads.submit(self._work_on, call)
        except RuntimeError as error:
            self._leave(call.id)
            raise Determinate("the engine is stopping") from error
        return self._follow(call, end=time.monotonic() + wall_s_max, limit=limit, caller_waits=caller_waits)

    def close(self) -> None:
        """Takes no more calls."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._cancels.shutdown(wait=False, cancel_futures=True)

    def _enter(self, call_id: str) -> None:
        settings = self._settings
        with self._lock:
            if len(self._present) >= settings.calls_at_once_max + settings.calls_waiting_max:
                raise Determinate("the engine is busy", hint=f"calls_waiting_max = {settings.calls_waiting_max}")
            self._present.add(call_id)

    def _leave(self, call_id: str) -> None:
        with self._lock:
            self._present.discard(call_id)
            self._idle_since = time.monotonic()
            self._all_left.notify_all()

    def _follow(
        self,
        call: RunningCall[ResultT],
        *,
        end: float,
        limit: Callable[[], OdfError],
        caller_waits: Callable[[], bool],
    ) -> Iterator[EngineProgress | Finished[ResultT]]:
        ended: Finished[ResultT] | None = None
        heartbeat = _Heartbeat()
        try:
            while ended is None and not call.done.is_set():
                for news in call.progress(wait_s=_WATCH_S):
                    heartbeat.sent(news)
                    yield news
                if heartbeat.is_due():
                    yield heartbeat.last
                if time.monotonic() >= end:
                    call.stop.set(limit())
                elif not caller_waits():
                    call.stop.set(Determinate("the caller is gone"))
                elif self._executors is not None and self._executors.lost:
                    call.stop.set(self._executors.missing())
                if call.stop.reason is not None:
                    ended = self._end(call)
                elif self._lost is not None and not call.done.is_set():
                    ended = Finished(lost=self._lost)
        except GeneratorExit:
            call.stop.set(Determinate("the caller is gone"))
            self._end(call)
            raise
        if ended is not None:
            # Not within the try: who has the last word closes us at it, and the process may have no time to end the call twice.
            yield ended
            return
        yield from call.progress(wait_s=0)
        yield call.finished or Finished(error=Determinate("the call left no result"))

    def _end(self, call: RunningCall[ResultT]) -> Finished[ResultT]:
        """Cancels the call's jobs until its thread is free.

        Gives the process up if that does not come true in time.
        """
        patience_end = time.monotonic() + self._settings.grace_s
        cancelling: Future[None] | None = None
        while not call.done.wait(_WATCH_S):
            if cancelling is None or cancelling.done():
                # Again and again: jobs of the same call may start in between.
                cancelling = self._cancels.submit(self._cancel, call.id)
            if time.monotonic() >= patience_end:
                self._give_up()
                return Finished(error=call.stop.reason)
            if self._lost is not None:
                return Finished(error=call.stop.reason)
        # A result that came at the same moment counts: the work is done.
        return call.finished or Finished(error=call.stop.reason)

    def _cancel(self, call_id: str) -> None:
        with suppress(Py4JError, OSError):  # a JVM that is gone ends the process elsewhere
            self._spark.sparkContext.cancelJobGroup(call_id)

    def _work_on(self, call: RunningCall[ResultT]) -> None:
        try:
            if call.stop.reason is not None:
                raise call.stop.reason
            call.finished = Finished(result=self._work(call))
            # What a JVM does not answer may be read as a refusal on the way.
            if not self._jvm_answers():
                call.finished = self._silenced(None)
        except BaseException as error:  # noqa: BLE001 - the thread's outcome, whatever it is, belongs to the caller
            call.finished = self._failed(call, error)
            _let_go(error)
            self._await_tasks(call)
        finally:
            self._leave(call.id)
            call.done.set()
            call.tell(None)

    def _await_tasks(self, call: RunningCall[ResultT]) -> None:
        """A failed call ends when its last task has.

        If that does not come true in time, the process is given up.
        """
        patience_end = time.monotonic() + self._settings.grace_s
        try:
            while has_leftover_tasks(self._spark.sparkContext, call.id):
                if time.monotonic() >= patience_end:
                    self._give_up()
                    return
                time.sleep(_WATCH_S)
        except _SILENCE as silence:
            if call.stop.reason is None and (
                call.finished is None or not isinstance(call.finished.error, LimitExceeded)
            ):
                call.finished = self._silenced(silence)
            self._give_up()  # a JVM that cannot be asked is not healthy

    def _jvm_answers(self) -> bool:
        try:
            self._spark.sparkContext._jvm.java.lang.System.nanoTime()
        except _SILENCE:
            return False
        return True

    def _work(self, call: RunningCall[ResultT]) -> ResultT:
        context = self._spark.sparkContext
        context.setJobGroup(call.id, "engine call", interruptOnCancel=True)
        context.setLocalProperty("spark.scheduler.pool", threading.current_thread().name)
        with ExitStack() as stack:
            scratch = self._exchange.root
            if call.output is not None:
                scratch = stack.enter_context(self._exchange.scratch(call.output))
            stack.enter_context(interruptible(call.stop))
            return call.work(
                EngineCall(
                    session=request_session(self._spark),
                    exchange=self._exchange,
                    settings=self._settings,
                    scratch=scratch,
                    stop=call.stop,
                    listener=call.tell,
                    plans=self._plans,
                    mapped=self._mapped,
                    kept_files=self._kept,
                )
            )

    def _failed(self, call: RunningCall[ResultT], error: BaseException) -> Finished[ResultT]:
        if call.stop.reason is not None:
            return Finished(error=call.stop.reason)
        if is_silence(error):
            return self._silenced(error)
        known = as_odf_error(error)
        if known is None:
            return Finished(bug=error)
        # Errors of users are answered to them; failures of the world around are for the operator too.
        return Finished(error=known, cause=error if isinstance(known, External) and known is not error else None)

    def _silenced(self, silence: BaseException | None) -> Finished[Any]:
        """The end of a call to which the JVM does not answer any more."""
        if not self._out_of_memory():
            return Finished(lost=Determinate("the engine's JVM does not answer"), cause=silence)
        # Its own fault only if it was alone, and not if it came after the fall.
        with self._lock:
            alone, self._fallen = len(self._present) == 1 and not self._fallen, True
        if alone:
            limit = self._settings.memory_mib
            message = "the call needs more memory than the engine has"
            return Finished(error=LimitExceeded(message, limit="memory_mib", maximum=limit), cause=silence)
        several = Determinate(
            "the engine ran out of memory under several calls", hint="repeat it; memory_mib is too little"
        )
        return Finished(lost=several, cause=silence)


def _let_go(error: BaseException) -> None:
    """Close what a failure's frames hold, open files above all.

    Frames and failure name each other, and where no other call follows nothing collects them, so that files removed
    long ago would go on taking room. The log needs lines alone."""
    waiting: list[BaseException | None] = [error]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if each is not None and id(each) not in seen:
            seen.add(id(each))
            traceback.clear_frames(each.__traceback__)
            waiting += [each.__cause__, each.__context__]
