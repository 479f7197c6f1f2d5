"""SIGKILL of every process of a working node: it continues by itself.

Nothing is lost, doubled or left running.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.node_process import END_S_MAX, NDJSON, NodeProcess, ndjson, node_process
from tests.support.process_tree import Seen, alive
from tests.support.stories import hourly, reading, root
from tests.support.waiting import wait_until

PER_HOUR = 4
LONG_LEASE_S = "600"
"""So long that work which nobody hands over would not end before its test does."""


def batch(number: int) -> list[dict[str, object]]:
    """Rows of an hour."""
    return [reading(number * 60 + minute) for minute in range(PER_HOUR)]


def check(node: NodeProcess, name: str, batches: int) -> None:
    """Every pushed row is there exactly once, and everything verifies."""
    expected = [row for number in range(batches) for row in batch(number)]
    rows = node.tail(name)
    assert [row["offset"] for row in rows] == list(range(len(expected)))
    assert [row["event_time"] for row in rows] == [row["event_time"] for row in expected]
    assert node.verify(name) == {"ok": True, "errors": []}
    waiting = [path for path in (node.workspace / "exchange").iterdir() if not path.name.startswith(".")]
    assert waiting == [], "what a dead engine left is gone"


def gone(processes: set[Seen]) -> None:
    wait_until(lambda: not alive(processes), deadline_s=END_S_MAX, what=f"the end of {processes}")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One workspace for all deaths, each of which finds what the one before left."""
    return tmp_path_factory.mktemp("deaths") / "workspace"


@pytest.mark.parametrize("death", [1, 2])
def test_engine_killed_while_it_ingests_and_while_it_transforms(
    tmp_path_factory: pytest.TempPathFactory, engine_cache: Path, workspace: Path, death: int
) -> None:
    # Each engine is killed under the one call that the test makes.
    environment = {"ODF_ENGINE_CACHE": str(engine_cache), "ODF_FLOWS": "false"}
    name = f"deaths-{death}"
    with node_process(workspace, ODF_CRASH_AT="engine-process.ingest:before-result", **environment) as node:
        node.create(root(name))
        first = node.one("odfabric_engine_spark")
        assert node.push(name, batch(0))["rows"] == PER_HOUR
        assert node.one("odfabric_engine_spark") != first, "the engine was never killed"
        # Not before: the engine would be asked for the columns of a dataset without data, and be killed then.
        node.create(hourly(f"{name}.hourly", of=name))
        check(node, name, 1)
        assert node.end() == 0
    with node_process(workspace, ODF_CRASH_AT="engine-process.transform:before-result", **environment) as node:
        node.push(name, batch(1))
        first = node.one("odfabric_engine_spark")
        assert node.pull(f"{name}.hourly")["rows"] == 1
        assert node.one("odfabric_engine_spark") != first, "the engine was never killed"
        check(node, name, 2)
        assert [row["n"] for row in node.tail(f"{name}.hourly")] == [PER_HOUR]
        assert node.verify(f"{name}.hourly") == {"ok": True, "errors": []}
        left = node.processes()
        assert any("java" in process.command for process in left), "the search would not find a Java that stays"
        assert node.end(signal.SIGTERM) == 0
        gone(left)


@pytest.fixture(scope="module")
def again(workspace: Path, engine_cache: Path) -> Iterator[NodeProcess]:
    """The node whose parts are killed one after the other."""
    with node_process(workspace, ODF_ENGINE_CACHE=str(engine_cache), ODF_LEASE_S=LONG_LEASE_S) as node:
        yield node


def accept(node: NodeProcess, name: str, number: int) -> str:
    """A push that is durable but not yet done; its job."""
    answer = node.post(
        f"/local/{name}/ingest",
        ndjson(batch(number)),
        content_type=NDJSON,
        prefer="respond-async",
        idempotency_key=f"{name}-{number}",
    )
    assert answer.status_code == 202, answer.text
    return str(answer.json()["job"]["id"])


@pytest.mark.parametrize("module", ["odfabric_worker", "odfabric_api", "odfabric_engine_spark"])
def test_a_part_that_is_killed_under_work_comes_back(again: NodeProcess, module: str) -> None:
    name = module.removeprefix("odfabric_").replace("_", "-")
    again.create(root(name))
    again.push(name, batch(0))
    victim = again.one(module)
    job = accept(again, name, 1)
    os.kill(victim, signal.SIGKILL)
    ended = again.ended(job)
    assert (ended["status"], ended["result"]["rows"]) == ("succeeded", PER_HOUR), ended
    repeated = again.push(name, batch(1), idempotency_key=f"{name}-1")
    assert repeated["head"] == again.head(name)
    assert repeated["rows"] == PER_HOUR
    check(again, name, 2)
    assert again.one(module) != victim


def test_up_that_is_killed_leaves_nothing_running_and_the_next_one_continues(
    again: NodeProcess, workspace: Path, engine_cache: Path
) -> None:
    again.create(root("survivor"))
    again.push("survivor", batch(0))
    job = accept(again, "survivor", 1)
    started = again.processes()
    assert len(started) >= 4, started
    again.process.kill()
    again.process.wait()
    gone(started)
    with node_process(workspace, ODF_ENGINE_CACHE=str(engine_cache), ODF_LEASE_S=LONG_LEASE_S) as node:
        assert node.ended(job)["status"] == "succeeded"
        check(node, "survivor", 2)
