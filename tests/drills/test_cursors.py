"""SIGKILL at every call on a cursor: the consumer goes on, and has every change exactly once."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.unreliable.crash_points import CRASH_POINTS
from odfabric.wiring import open_node, prepare_workspace
from tests.drills import scenario
from tests.drills.test_crash_points import PROCESS_S_MAX, PROCESSES

RECEIVER = "127.0.0.1:9"


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with rows."""
    workspace = tmp_path_factory.mktemp("lived") / "w"
    settings = scenario.settings_of(workspace, RECEIVER)
    prepare_workspace(settings)
    with open_node(settings, engine=MemoryEngine(workspace / "exchange")) as node:
        scenario.grow_origin(node)
    return workspace


def run(workspace: Path, crash_at: str | None, *, hours_ahead: int = 0) -> int | None:
    arguments = (str(workspace), RECEIVER, crash_at, hours_ahead, scenario.consume)
    process = PROCESSES.Process(target=scenario.live, args=arguments)
    process.start()
    process.join(PROCESS_S_MAX)
    return process.exitcode


POINTS = {point: 5 if "move" in point else 1 for point in CRASH_POINTS if point.startswith("cursor.")}
"""At which time: the fifth move acknowledges."""


@pytest.mark.parametrize("point", [f"{point}@{hit}" for point, hit in POINTS.items()])
def test_a_consumer_that_dies_there_has_every_change_once(tmp_path: Path, lived: Path, point: str) -> None:
    workspace = tmp_path / "w"
    shutil.copytree(lived, workspace)
    assert run(workspace, point) == -signal.SIGKILL, f"{point} was never reached"
    assert run(workspace, None, hours_ahead=48) == 0
    own = json.loads((workspace / scenario.CONSUMED).read_text())
    assert [row["offset"] for row in own["rows"]] == list(range(len(scenario.DAYS)))
    assert own["done"]
