"""SIGKILL at every listed crash point, each at least twice: the next process continues, nothing is lost or doubled.

The process that dies is a real one on real adapters; the one that continues knows nothing but what lies in the workspace.
"""

from __future__ import annotations

import json
import multiprocessing
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from odfabric.adapters.memory.clock import SettableClock
from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.unreliable.crash_points import CRASH_POINTS
from odfabric.formats.references import parse_dataset_alias
from odfabric.formats.webhook_signature import verify
from odfabric.model.instant import Instant
from odfabric.model.metadata import AddData, ExecuteTransform
from odfabric.usecases.read_tail import ReadTail
from odfabric.usecases.verify_dataset import VerifyOptions
from odfabric.wiring import Node, open_node, prepare_workspace
from tests.drills import scenario

PROCESS_S_MAX = 60
# One process that has everything imported makes all others, so that a drill costs what its steps cost.
PROCESSES = multiprocessing.get_context("forkserver")
PROCESSES.set_forkserver_preload(["tests.drills.scenario"])


ELSEWHERE = ("chain.adopt", "removed.forget", "cursor.", "index.")
"""Calls that this day has not: see `test_rebuild`, `test_collect`, `test_cursors` and `test_index`."""


class Receiver:
    """Takes webhooks; refuses each event the first time, so that attempts fail too."""

    def __init__(self) -> None:
        self.taken: dict[str, int] = {}
        self._seen: set[str] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                self.send_response(204 if receiver.take(headers, body) else 503)
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def forget(self) -> None:
        """Begin again."""
        self.taken.clear()
        self._seen.clear()

    def take(self, headers: dict[str, str], body: bytes) -> bool:
        sent_at = Instant(int(headers["webhook-timestamp"]) * 1_000_000_000)
        event = verify(headers, body, secrets=[scenario.SECRET], now=sent_at)
        if event not in self._seen:
            self._seen.add(event)
            return False
        self.taken[event] = int(json.loads(body)["data"]["sequence"])
        return True


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    thread = threading.Thread(target=found.server.serve_forever, daemon=True)
    thread.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    thread.join()


def run(
    workspace: Path,
    receiver: Receiver,
    crash_at: str | None,
    *,
    hours_ahead: int,
    steps: scenario.Steps = scenario.pushes_and_subscribers,
) -> int:
    process = PROCESSES.Process(
        target=scenario.live, args=(str(workspace), receiver.address, crash_at, hours_ahead, steps)
    )
    process.start()
    process.join(PROCESS_S_MAX)
    if process.exitcode is None:
        process.kill()
        process.join()
        raise AssertionError("the process did not end")
    return process.exitcode


@contextmanager
def opened(workspace: Path, receiver: Receiver) -> Iterator[Node]:
    """The node three days later, to look into."""
    settings = scenario.settings_of(workspace, receiver.address)
    engine = MemoryEngine(workspace.absolute() / "exchange")
    clock = SettableClock(Instant(time.time_ns() + 72 * scenario.HOUR_NS), step_ms=1)
    with open_node(settings, engine=engine, clock=clock) as node:
        yield node


def check_dataset(node: Node, name: str) -> int:
    """Every row is there once and the dataset verifies; how many blocks have brought them."""
    entry = node.resolve(parse_dataset_alias(name))
    answer = node.tail(entry, ReadTail(skip=0, limit=100, data_format="JsonAoS", schema_format=None))
    rows = answer["data"]
    assert isinstance(rows, list)
    assert [row["offset"] for row in rows] == list(range(len(scenario.DAYS)))
    assert len({row["event_time"] for row in rows}) == len(scenario.DAYS)
    job = node.enqueue_verify(entry, VerifyOptions())
    ended = node.work_until_ended(job, worker="check", listener=lambda _: None)
    assert json.loads(ended.result or "{}") == {"ok": True, "errors": []}
    events = [link.block.event for link in node.log(entry, limit=100)]
    return sum(isinstance(event, AddData | ExecuteTransform) for event in events)


def check(workspace: Path, receiver: Receiver) -> None:
    """Every dataset verifies, every acknowledged row is there once, every event was delivered once in order."""
    with opened(workspace, receiver) as node:
        for name in ("readings", "copied"):
            assert check_dataset(node, name) == len(scenario.DAYS)
        assert 1 <= check_dataset(node, "grouped") <= len(scenario.DAYS)
        aliases = [str(entry.alias) for entry in node.datasets(after=None, limit=10)]
        assert aliases == ["local/copied", "local/grouped", "local/readings"]
        assert node.relay_outbox() == 0
        readings = node.resolve(parse_dataset_alias("readings"))
        assert sorted(found.sequence for found in scenario.deliveries(node, readings)) == [1, 2, 3]
        assert sorted(receiver.taken.values()) == [1, 2, 3]
        exchange = [path for path in (workspace / "exchange").iterdir() if not path.name.startswith(".")]
        assert exchange == []


def test_without_a_crash_the_scenario_reaches_every_listed_point(tmp_path: Path, receiver: Receiver) -> None:
    assert run(tmp_path / "w", receiver, None, hours_ahead=0) == 0
    check(tmp_path / "w", receiver)


@pytest.mark.parametrize("hit", [1, 2])
@pytest.mark.parametrize("point", [point for point in CRASH_POINTS if not point.startswith(ELSEWHERE)])
def test_a_process_that_dies_there_is_continued_by_the_next(
    tmp_path: Path, receiver: Receiver, point: str, hit: int
) -> None:
    workspace = tmp_path / "w"
    died = run(workspace, receiver, f"{point}@{hit}", hours_ahead=0)
    if died == 0 and hit == 2:
        # A point that a run passes once only: the second drill is the first one again, in a workspace of its own.
        workspace = tmp_path / "again"
        receiver.forget()
        died = run(workspace, receiver, point, hours_ahead=0)
    assert died == -signal.SIGKILL, f"{point} was never reached"
    assert run(workspace, receiver, None, hours_ahead=48) == 0
    check(workspace, receiver)


PULLED_BY = (
    *("object.block", "object.data", "object.checkpoint", "object.info", "object.ref.put", "chain.append"),
    *("job.enqueue", "job.lease", "job.heartbeat", "job.succeed", "engine.ingest", "engine.transform", "outbox"),
)
PULLED = tuple(point for point in CRASH_POINTS if point.startswith(PULLED_BY))
"""Where a pull can die."""


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of another node, as a folder."""
    workspace = tmp_path_factory.mktemp("elsewhere") / "w"
    prepare_workspace(scenario.settings_of(workspace, "127.0.0.1:9"))
    with open_node(scenario.settings_of(workspace, "127.0.0.1:9"), engine=MemoryEngine(workspace / "exchange")) as node:
        return scenario.grow_origin(node)


@pytest.mark.parametrize("hit", [1, 2])
@pytest.mark.parametrize("point", PULLED)
def test_a_pull_that_dies_there_is_continued_by_the_next_process(
    tmp_path: Path, receiver: Receiver, origin: Path, point: str, hit: int
) -> None:
    workspace, steps = tmp_path / "w", scenario.polls_and_copies
    (tmp_path / "sources").mkdir()
    shutil.copytree(origin, tmp_path / "sources" / "origin")
    died = run(workspace, receiver, f"{point}@{hit}", hours_ahead=0, steps=steps)
    assert died == -signal.SIGKILL, f"{point} was never reached"
    assert run(workspace, receiver, None, hours_ahead=48, steps=steps) == 0
    with opened(workspace, receiver) as node:
        blocks = [check_dataset(node, name) for name in ("polled", "derived", "mirrored")]
        heads = [node.repository.head(node.resolve(parse_dataset_alias(name)).id).hash for name in ("mirrored",)]
    assert 1 <= blocks[1] <= blocks[0] <= blocks[2] == len(scenario.DAYS)
    assert str(heads[0]) == (origin / "refs" / "head").read_text().strip()
