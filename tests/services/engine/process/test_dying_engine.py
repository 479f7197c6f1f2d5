"""A dying engine: what dies with it, what callers learn, and no false survivor."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from odfabric.adapters.engine_process.launcher import EngineLaunch, EngineLauncher
from odfabric.adapters.grpc_engine.engine import GrpcEngine, Loss, loss_of
from odfabric.errors import Determinate, LimitExceeded, OdfError
from odfabric.model.engine import EngineProgress, QueryRequest
from odfabric_engine_spark.process.server import EXIT_JVM_DIED, EXIT_STUCK
from tests.services.engine.engine_process import EngineUnderTest, gone
from tests.support.engines.class_archive import class_archive
from tests.support.engines.quick_jvm import QUICK_JVM
from tests.support.process_tree import descendants
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

ENDLESS = "SELECT count(*) AS n FROM range(1000000000000000) WHERE id % 7 = 3"
"""Work whose tasks look whether they shall stop."""
STUBBORN = r"SELECT rlike(concat(repeat('a', 64), '!'), r'^(a|aa)+\1$') AS never"
"""Work whose tasks never look."""
QUICK = "SELECT count(*) AS n FROM range(10) GROUP BY id % 3"
PATIENCE_S = 60.0


def query(sql: str, **changes: object) -> QueryRequest:
    request = QueryRequest(
        sql=sql, inputs=(), skip=0, limit=10, bytes_max=1 << 20, wall_ms_max=120_000, output_path="answer"
    )
    return replace(request, **changes)  # type: ignore[arg-type]


def ignore(progress: EngineProgress) -> None:
    pass


@dataclass
class Asked:
    """Queries that an engine works on."""

    client: GrpcEngine
    threads: ThreadPoolExecutor

    def ask(self, request: QueryRequest) -> Future[OdfError | None]:
        """What a query fails with; returns once the engine works on it."""
        working = threading.Event()
        asked = self.threads.submit(self._error, request, working)
        assert working.wait(PATIENCE_S)
        return asked

    def _error(self, request: QueryRequest, working: threading.Event) -> OdfError | None:
        try:
            self.client.query(request, progress=lambda _: working.set())
        except OdfError as error:
            return error
        return None


@contextmanager
def asking(engine: EngineUnderTest) -> Iterator[Asked]:
    with engine.client() as client, ThreadPoolExecutor(4) as threads:
        client.query(query(QUICK), progress=ignore)  # warm: calls start at once
        yield Asked(client, threads)


def loss(error: OdfError | None) -> tuple[Loss | None, bool]:
    """How the call was lost, and whether the attempt does not count."""
    assert isinstance(error, Determinate), error
    return loss_of(error), error.blameless


def test_neighbours_of_a_call_that_cannot_be_ended_hear_that_it_was_not_theirs(tmp_path: Path) -> None:
    engine = EngineUnderTest(tmp_path, options=("--grace-s", "1"))
    with asking(engine) as asked:
        neighbours = [asked.ask(query(ENDLESS, output_path=f"answer-{number}")) for number in range(2)]
        expensive = asked.ask(query(STUBBORN, wall_ms_max=5_000))
        error = expensive.result(PATIENCE_S)
        assert isinstance(error, LimitExceeded)
        assert error.limit == "query_wall_s_max"
        assert [loss(each.result(PATIENCE_S)) for each in neighbours] == [(Loss.OTHERS, True)] * 2
        assert engine.process.wait(PATIENCE_S) == EXIT_STUCK
        assert not engine.ready_file.exists()
        with pytest.raises(Determinate) as caught:
            asked.client.query(query(QUICK), progress=ignore)
        assert loss(caught.value) == (Loss.AWAY, False)


def test_of_calls_in_a_jvm_that_dies_any_may_be_the_reason(tmp_path: Path) -> None:
    engine = EngineUnderTest(tmp_path)
    with asking(engine) as asked:
        lost = [asked.ask(query(ENDLESS, output_path=f"answer-{number}")) for number in range(2)]
        (java,) = [seen.pid for seen in descendants(engine.process.pid) if "/bin/java" in seen.command]
        os.kill(java, signal.SIGKILL)
        assert [loss(each.result(PATIENCE_S)) for each in lost] == [(Loss.BROKE_DOWN, False)] * 2
    assert engine.process.wait(PATIENCE_S) == EXIT_JVM_DIED


def test_a_call_that_vanishes_with_its_process_had_begun(tmp_path: Path) -> None:
    engine = EngineUnderTest(tmp_path)
    with asking(engine) as asked:
        lost = asked.ask(query(ENDLESS))
        engine.kill()
        assert loss(lost.result(PATIENCE_S)) == (Loss.BROKE_DOWN, False)


def test_an_engine_that_ends_in_order_takes_no_calls_while_it_lets_others_end(tmp_path: Path) -> None:
    engine = EngineUnderTest(tmp_path, options=("--stop-s-max", "4"))
    with asking(engine) as asked:
        lost = asked.ask(query(ENDLESS))
        engine.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not engine.ready_file.exists(), what="the end of its ready file")
        assert not lost.done()
        assert not asked.client.answers(wait_s=0.5)
        with pytest.raises(Determinate) as caught:
            asked.client.query(query(QUICK), progress=ignore)
        assert loss(caught.value) == (Loss.AWAY, False)
        assert not lost.done(), "the engine has ended before the questions above were put to it"
        assert loss(lost.result(PATIENCE_S)) == (Loss.OTHERS, True)
        assert engine.process.wait(PATIENCE_S) == 0


@pytest.fixture
def launcher(tmp_path: Path) -> Iterator[EngineLauncher]:
    launcher = EngineLauncher(
        EngineLaunch(
            workspace=tmp_path,
            exchange=tmp_path / "exchange",
            memory_mib=1024,
            jvm_options=QUICK_JVM,
            start_s_max=90,
            call_s_max=600,
            query_text_bytes_max=1 << 20,
            column_name_bytes_max=1024,
            idle_s=0,
            owner_pid=os.getpid(),
            cache_folder=class_archive(),
        )
    )
    (tmp_path / "exchange").mkdir()
    yield launcher
    launcher.stop()
    assert launcher.running() is None


def test_an_engine_that_is_about_to_end_is_not_found_running(launcher: EngineLauncher) -> None:
    first = launcher.ensure()
    below = [seen.pid for seen in descendants(first.pid)]
    assert launcher.running() == first
    # Stopped, it stays where it is in its end: after the engine in it has ended, before it has.
    inner = min(below)
    os.kill(first.pid, signal.SIGSTOP)
    os.kill(inner, signal.SIGKILL)
    os.kill(first.pid, signal.SIGCONT)
    wait_until(lambda: launcher.running() is None, what="an engine that is not found")
    second = launcher.ensure()
    assert second.pid != first.pid
    assert gone(first.pid), "what is left of one engine has ended before the next one starts"
    assert launcher.running() == second


def test_an_engine_whose_record_is_gone_ends_with_the_launcher_that_started_it(
    launcher: EngineLauncher, tmp_path: Path
) -> None:
    started = launcher.ensure()
    (tmp_path / "engine.json").unlink()
    launcher.stop()
    assert gone(started.pid)
