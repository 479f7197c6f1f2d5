"""Which runs of a state a transaction stores.

Owns what rows and groups have in common there: runs that are closed for good are given up, those that mostly are get written again,
tiers are merged. Invariant: the outcome is a function of the stored runs and of what the transaction added. Not here: what merging
means (`net_rows`, `latest_rows`), the file (`checkpoint`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes
from odfabric_engine_spark.spark.calls.call import EngineCall
from odfabric_engine_spark.state.compaction_tiers import merges
from odfabric_engine_spark.state.run import CLOSES, Run
from odfabric_engine_spark.state.run_file import WrittenRun

REWRITE_SHARE = 0.5
"""A run of which this share is closed for good is written again without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWork:
    """Resources for changing a state: a folder for large data, memory, time."""

    scratch: Path
    piece_rows: int
    added_bytes_max: int
    check: Callable[[], None]
    """Raises what ends the call, if it was cancelled or has no time left."""

    @classmethod
    def of(cls, call: EngineCall) -> StateWork:
        """Of a call."""
        return cls(
            scratch=call.scratch,
            piece_rows=call.settings.state_piece_rows,
            added_bytes_max=call.settings.state_added_bytes_max,
            check=call.check,
        )


class StateToStore(Protocol):
    """A state as a checkpoint stores it."""

    @property
    def stored_schema(self) -> pa.Schema:
        """Columns of its runs."""

    @property
    def dropped_to_us(self) -> int | None:
        """Rows that close at this instant or before are removed."""

    @property
    def kept_bytes(self) -> int:
        """Size of the runs that it was made of: what a transaction adds is not counted."""

    def to_store(self, *, whole: bool) -> list[Run | WrittenRun]:
        """Runs to store, oldest first: kept and new ones; `whole`: at most one, new."""


def runs_to_store(
    runs: Sequence[Run], write: Callable[[range], WrittenRun], *, whole: bool, dropped_to_us: int | None
) -> list[Run | WrittenRun]:
    """As `StateToStore.to_store`: `write` makes one run of neighbours.

    The neighbours are given by their places in `runs`.
    """
    to_store: list[Run | WrittenRun] = []
    shares = [0.0 if dropped_to_us is None else run.close_times.share_closed(dropped_to_us) for run in runs]
    sizes = [len(run) for run in runs]
    groups = [range(len(runs))] if whole and runs else merges(sizes)
    for group in groups:
        first = runs[group[0]]
        if len(group) == 1 and shares[group[0]] == 1:
            continue
        if len(group) == 1 and first.stored_at is not None and shares[group[0]] < REWRITE_SHARE and not whole:
            to_store.append(first)
        elif (written := write(group)).rows:
            to_store.append(written)
    return to_store


def without_dropped(hashes: Hashes, rows: pa.Table, dropped_to_us: int | None) -> tuple[Hashes, pa.Table]:
    """Rows that are not removed."""
    if dropped_to_us is None or CLOSES not in rows.column_names:
        return hashes, rows
    dropped = pc.fill_null(pc.less_equal(rows.column(CLOSES), dropped_to_us), False)
    if not pc.any(dropped).as_py():
        return hashes, rows
    kept = np.nonzero(~one_array(dropped).to_numpy(zero_copy_only=False))[0]
    return hashes[kept], rows.take(pa.array(kept))
