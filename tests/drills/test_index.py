"""SIGKILL at every call on a current-state index: the next process goes on, the index says what the chain says."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.adapters.unreliable.crash_points import CRASH_POINTS
from odfabric.formats.references import parse_dataset_alias
from odfabric.wiring import open_node
from tests.drills import scenario
from tests.drills.test_crash_points import PROCESS_S_MAX, PROCESSES

RECEIVER = "127.0.0.1:9"


def run(workspace: Path, crash_at: str | None, *, hours_ahead: int = 0) -> int | None:
    arguments = (str(workspace), RECEIVER, crash_at, hours_ahead, scenario.follow)
    process = PROCESSES.Process(target=scenario.live, args=arguments)
    process.start()
    process.join(PROCESS_S_MAX)
    return process.exitcode


@pytest.mark.parametrize("point", [point for point in CRASH_POINTS if point.startswith("index.")])
def test_an_index_is_brought_forward_by_the_next_process(tmp_path: Path, point: str) -> None:
    workspace = tmp_path / "w"
    died = run(workspace, f"{point}@2" if "drop" not in point else point)
    assert died == -signal.SIGKILL, f"{point} was never reached"
    assert run(workspace, None, hours_ahead=48) == 0
    engine = MemoryEngine(workspace.absolute() / "exchange")
    with open_node(scenario.settings_of(workspace, RECEIVER), engine=engine) as node:
        entry = node.resolve(parse_dataset_alias("ledger"))
        assert node.indexes.inspect(entry).blocks_behind == 0
        assert node.indexes.verify(entry).problem is None
