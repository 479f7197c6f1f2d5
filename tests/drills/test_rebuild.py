"""SIGKILL at every point of a rebuild: the next one goes on, and the database is the one that was lost."""

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
DATABASE = "odf.sqlite3"
TOLD = {
    "datasets": "id, account, name, kind, created_at",
    "heads": "*",
    "blocks": "*",
    "idempotency": "*",
}
"""What of the database the object store knows."""


def rows_of(workspace: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(workspace / DATABASE)) as connection:
        return {
            table: sorted(connection.execute(f"SELECT {columns} FROM {table}").fetchall())
            for table, columns in TOLD.items()
        }


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A workspace in which something happened."""
    workspace = tmp_path_factory.mktemp("lived") / "w"
    settings = scenario.settings_of(workspace, RECEIVER)
    prepare_workspace(settings)
    with open_node(settings, engine=MemoryEngine(workspace / "exchange")) as node:
        scenario.grow_and_lose_sight(node)
    return workspace


def run(workspace: Path, crash_at: str | None) -> int | None:
    arguments = (str(workspace), RECEIVER, crash_at, 0, scenario.rebuild)
    process = PROCESSES.Process(target=scenario.live, args=arguments)
    process.start()
    process.join(PROCESS_S_MAX)
    return process.exitcode


ADOPTIONS = [f"chain.adopt:{when}@{hit}" for when in ("before", "after") for hit in (2, 4)]
"""Three datasets, and what lies beyond the head of one of them."""


@pytest.mark.parametrize("point", [*ADOPTIONS, "object.ref.put:before", "object.ref.put:after"])
def test_a_rebuild_that_dies_there_is_continued_by_the_next(tmp_path: Path, lived: Path, point: str) -> None:
    workspace = tmp_path / "w"
    shutil.copytree(lived, workspace)
    before = rows_of(workspace)
    assert [len(rows) for rows in before.values()] == [3, 3, len(before["blocks"]), 2 * len(scenario.DAYS)]
    for file in workspace.glob(f"{DATABASE}*"):
        file.unlink()
    assert run(workspace, point) == -signal.SIGKILL, f"{point} was never reached"
    assert run(workspace, None) == 0
    assert rows_of(workspace) == before
