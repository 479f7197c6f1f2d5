"""An engine whose queries go on for as long as a test wants."""

from __future__ import annotations

import threading
from pathlib import Path

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.model.engine import EngineProgress, QueryRequest, QueryResult
from odfabric.ports.engine import ProgressListener

PULSE_S = 0.005


class PulsingEngine(MemoryEngine):
    """Queries end when `release` is set or a listener, called often, raises."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.release = threading.Event()

    def query(self, request: QueryRequest, *, progress: ProgressListener) -> QueryResult:
        """See the port."""
        while not self.release.wait(PULSE_S):
            progress(EngineProgress(stage="work", done=0, total=0))
        return super().query(request, progress=progress)
