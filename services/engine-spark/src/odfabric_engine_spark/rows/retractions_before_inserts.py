"""Log retractions that come before their inserts, with their offsets.

Owns the message. Such a row counts as absent, stays in the state, and cancels one that comes later (`state.net_rows`); anyone who looks
after the input should know. Invariant: what is reported changes nothing. Not here: an unmatched retraction (`extraction`).
Source: docs/engine.md#unmatched-retractions.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from odfabric.formats.slices.canonical_rows import table_bytes
from odfabric_engine_spark.arrays.array_types import Longs
from odfabric_engine_spark.rows.delta import Delta

_OFFSETS_SHOWN_MAX = 10
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WithdrawnRows:
    """The rows that an input withdraws in a step, and where they stand in it."""

    rows: pa.Table
    offsets: Longs

    @classmethod
    def of(cls, delta: Delta, offsets: Longs) -> WithdrawnRows:
        """Those of new rows, whose offsets are given."""
        places = np.nonzero(delta.weights < 0)[0]
        return cls(delta.take(places).rows, offsets[places])

    def offsets_of(self, rows: pa.Table) -> list[int]:
        """At which offsets rows equal to some are withdrawn."""
        wanted = set(table_bytes(rows).to_pylist())
        known = zip(self.offsets.tolist(), table_bytes(self.rows).to_pylist(), strict=True)
        return [offset for offset, each in known if each in wanted]


def log_unmatched_retractions(source: str, rows: pa.Table, withdrawn: WithdrawnRows | None) -> None:
    """Logs unmatched retractions.

    Those of an input have offsets, those between stages have none.
    """
    offsets = [] if withdrawn is None else withdrawn.offsets_of(rows)
    shown = ", ".join(map(str, offsets[:_OFFSETS_SHOWN_MAX])) + (", .." if len(offsets) > _OFFSETS_SHOWN_MAX else "")
    _log.warning(
        "%d retractions of %s came before their inserts%s: each cancels its insert when that comes",
        rows.num_rows,
        source,
        f" (offsets {shown})" if shown else "",
    )
