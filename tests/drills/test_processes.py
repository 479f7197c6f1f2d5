"""The processes of drills are cheap: what they need is imported before they begin."""

from __future__ import annotations

import os
from pathlib import Path

from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.wiring import Node
from tests.drills import preloaded
from tests.drills.places import InFolder
from tests.drills.processes import run


def test_a_process_begins_with_everything_imported(tmp_path: Path) -> None:
    assert run(InFolder().new(tmp_path), was_imported_by_another) == 0


def was_imported_by_another(node: Node, clock: SettableClock, receiver: str) -> None:
    """Fails in a process that has imported everything by itself."""
    assert os.getpid() != preloaded.IMPORTED_BY
