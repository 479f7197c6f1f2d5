"""A run that is written while its rows are still being made.

Owns that neighbours become one run. Invariant: the run is the one that all its rows at once would have made. Not here: runs whose keys
mix (`net_rows`), the bytes of files (`run_file`).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from odfabric_engine_spark.arrays.array_types import Hashes
from odfabric_engine_spark.state.net_rows import pieces
from odfabric_engine_spark.state.run import Run
from odfabric_engine_spark.state.run_file import RunWriter, WrittenRun
from odfabric_engine_spark.state.stored_runs import StateWork

_WRITING_SHARE = 8
"""Of what may wait in memory a run has reached this part when its rows go to a file."""


class GrowingRun:
    """Takes runs of net rows, of which each begins behind the end of the one before.

    `kept` leaves out what is removed.
    """

    def __init__(
        self, schema: pa.Schema, work: StateWork, kept: Callable[[Hashes, pa.Table], tuple[Hashes, pa.Table]]
    ) -> None:
        self._schema = schema
        self._work = work
        self._kept = kept
        self._last: np.uint64 | None = None
        self._waiting: list[Run] = []
        self._waiting_bytes = 0
        self._writer: RunWriter | None = None

    def add(self, run: Run) -> None:
        """The next rows. Raises ValueError if they do not follow; OSError passes through."""
        if not len(run):
            return
        if self._last is not None and run.hashes[0] <= self._last:
            raise ValueError("a run does not begin behind the one before")
        self._last = run.hashes[-1]
        self._waiting.append(run)
        self._waiting_bytes += run.stored_bytes
        if self._writer is None and self._waiting_bytes > self._work.added_bytes_max // _WRITING_SHARE:
            self._writer = RunWriter(self._schema, self._work.scratch)
        if self._writer is not None:
            self._write(self._writer)

    def finished(self) -> Run | WrittenRun:
        """All of them: in memory, or written. OSError passes through."""
        if self._writer is not None:
            return self._writer.finish()
        if len(self._waiting) == 1:
            return self._waiting[0]
        hashes = np.concatenate([np.zeros(0, dtype=np.uint64), *(run.hashes for run in self._waiting)])
        rows = [run.slice(0, len(run)) for run in self._waiting]
        return Run.of(hashes, pa.concat_tables([self._schema.empty_table(), *rows]))

    def _write(self, writer: RunWriter) -> None:
        waiting, self._waiting = self._waiting, []
        for run in waiting:
            for piece in pieces([run], self._work.piece_rows):
                self._work.check()
                writer.write(*self._kept(piece.hashes, piece.rows))
