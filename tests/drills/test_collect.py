"""SIGKILL where the collector is done with a deleted dataset: the next round leaves neither objects nor the mark."""

from __future__ import annotations

import shutil
import signal
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.wiring import open_node, prepare_workspace
from tests.drills import scenario
from tests.drills.test_crash_points import PROCESS_S_MAX, PROCESSES

RECEIVER = "127.0.0.1:9"


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace with a dataset and what is left of another."""
    workspace = tmp_path_factory.mktemp("lived") / "w"
    settings = scenario.settings_of(workspace, RECEIVER)
    prepare_workspace(settings)
    with open_node(settings, engine=MemoryEngine(workspace / "exchange")) as node:
        scenario.make_and_delete(node)
    return workspace


def run(workspace: Path, crash_at: str | None) -> int | None:
    arguments = (str(workspace), RECEIVER, crash_at, 48, scenario.collect)
    process = PROCESSES.Process(target=scenario.live, args=arguments)
    process.start()
    process.join(PROCESS_S_MAX)
    return process.exitcode


def marks(workspace: Path) -> int:
    with closing(sqlite3.connect(workspace / "odf.sqlite3")) as connection:
        return len(connection.execute("SELECT * FROM removed_datasets").fetchall())


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_collector_that_dies_is_continued_by_the_next(tmp_path: Path, lived: Path, when: str) -> None:
    workspace = tmp_path / "w"
    shutil.copytree(lived, workspace)
    kept = [path for path in workspace.glob("objects/f*/**/*") if path.is_file() and "/info/" not in str(path)]
    (readings,) = {path.relative_to(workspace / "objects").parts[0] for path in kept if path.match("refs/head")}
    assert marks(workspace) == 1
    assert run(workspace, f"removed.forget:{when}") == -signal.SIGKILL
    assert run(workspace, None) == 0
    left = [path for path in workspace.glob("objects/f*/**/*") if path.is_file() and "/info/" not in str(path)]
    assert sorted(left) == sorted(path for path in kept if readings in path.parts)
    assert len(left) < len(kept)
    assert marks(workspace) == 0
