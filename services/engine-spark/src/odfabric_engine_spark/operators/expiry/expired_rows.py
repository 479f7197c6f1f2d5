"""Remove expired rows from the states of a stage.

Owns carrying out what `state_expiry` allows for rows. Where the instant of a row is enough, its state drops it by that; sessions and
versions are looked at when a row of their key passes the bound, and what goes is withdrawn from the state. Invariant: the rows
that are looked at are those of keys with such a row, so state expiry costs what it removes, and not what is kept. A session is cut by
the hash of its key: keys that share one make it longer, so that it is kept longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from odfabric.formats.slices.canonical_rows import one_array
from odfabric_engine_spark.arrays.array_types import Hashes, Longs, Mask
from odfabric_engine_spark.arrays.stable_order import order_by
from odfabric_engine_spark.operators.expiry.state_expiry import SessionRule, StageExpiry, VersionRule
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan
from odfabric_engine_spark.state.key_hash import key_bytes
from odfabric_engine_spark.state.row_state import RowState
from odfabric_engine_spark.state.run import CLOSES, HASH, WEIGHT, distinct, hashes_of


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of final rows before and after a step, in microseconds.

    None before all time. Rows that were final then or before are not taken any more.
    """

    before_us: int | None
    after_us: int

    def passed(self, reach_us: int) -> tuple[int | None, int]:
        """The span of instants that passed the bound in the step, without its begin."""
        return None if self.before_us is None else self.before_us - reach_us, self.after_us - reach_us


@dataclass(frozen=True, slots=True)
class ExpiredRows:
    """`rows_max` rows are looked at together. `check` raises what ends the call."""

    states: Mapping[StageScan, RowState | None]
    rows_max: int
    check: Callable[[], None]

    def expire(self, rules: StageExpiry, bounds: Bounds) -> None:
        """What the rules allow. Raises what `check` raises."""
        for scan, reach_us in rules.rows_us.items():
            state = self.states[scan]
            if state is not None:
                state.expire_closed(bounds.after_us - reach_us)
        for session in rules.sessions:
            self._expire_sessions(session, bounds)
        for version in rules.versions:
            self._expire_versions(version, bounds)

    def _expire_sessions(self, rule: SessionRule, bounds: Bounds) -> None:
        above_us, to_us = bounds.passed(rule.reach_us)
        states = [state for scan in rule.scans if (state := self.states[scan]) is not None]
        for hashes in self._pieces(states, above_us, to_us):
            found = [_timed(state.of_keys(pa.array(hashes))) for state in states]
            ends = np.concatenate([_longs(rows, CLOSES) for rows in found])
            over = _sessions_over(
                np.concatenate([hashes_of(rows.column(HASH)) for rows in found]), ends, rule.gap_us, to_us
            )
            begins = np.cumsum([0, *(rows.num_rows for rows in found)])
            for state, rows, begin in zip(states, found, begins[:-1], strict=True):
                _withdraw(state, rows.filter(pa.array(over[begin : begin + rows.num_rows])))

    def _expire_versions(self, rule: VersionRule, bounds: Bounds) -> None:
        above_us, to_us = bounds.passed(rule.reach_us)
        state = self.states[rule.scan]
        for hashes in self._pieces([] if state is None else [state], above_us, to_us):
            assert state is not None
            rows = _timed(state.of_keys(pa.array(hashes)))
            rows = rows.filter(pc.less_equal(rows.column(CLOSES), to_us))
            _withdraw(state, rows.filter(pa.array(_never_found(rule, rows))))

    def _pieces(self, states: list[RowState], above_us: int | None, to_us: int) -> Iterator[Hashes]:
        """Hashes of keys with rows past the bound, in batches of about `rows_max` rows."""
        hashes = distinct(*(hashes_of(state.closing(above_us, to_us)) for state in states))
        if not len(hashes):
            return
        ends = np.cumsum(np.sum([state.counts(hashes) for state in states], axis=0))
        piece_of = ends // max(self.rows_max, 1)
        for piece in np.split(hashes, np.nonzero(np.diff(piece_of))[0] + 1):
            self.check()
            yield piece


def _sessions_over(hashes: Hashes, ends_us: Longs, gap_us: int, to_us: int) -> Mask:
    """Which rows belong to sessions that have ended at an instant or before.

    A row at the very end of a session still belongs to it.
    """
    order = order_by(hashes, ends_us)
    ends, keys = ends_us[order], hashes[order]
    first = np.append(True, (keys[1:] != keys[:-1]) | (ends[1:] - gap_us > ends[:-1]))[: len(ends)]
    session = np.cumsum(first) - 1
    last = np.append(np.nonzero(first)[0][1:], len(ends)) - 1
    over: Mask = np.zeros(len(ends), dtype=bool)
    over[order] = (ends[last] <= to_us)[session] if len(ends) else over
    return over


def _never_found(rule: VersionRule, rows: pa.Table) -> Mask:
    """Which versions no row can find: uncounted ones, or with a final successor.

    A later one of their key is before all rows that may come.
    """
    *keys, passes = rule.values.evaluate(rows.drop_columns([HASH, WEIGHT, CLOSES]))
    counts = pc.fill_null(passes.cast(pa.bool_()), False).to_numpy(zero_copy_only=False)
    counts &= _longs(rows, WEIGHT) > 0
    numbers = key_bytes(keys).dictionary_encode().indices.to_numpy(zero_copy_only=False).astype(np.int64)
    times = _longs(rows, CLOSES)
    latest = np.full(int(numbers.max(initial=-1)) + 1, np.iinfo(np.int64).min)
    np.maximum.at(latest, numbers[counts], times[counts])
    found: Mask = ~counts | (times < latest[numbers])
    return found


def _withdraw(state: RowState, rows: pa.Table) -> None:
    if not rows.num_rows:
        return
    at = rows.schema.get_field_index(WEIGHT)
    state.add_run(state.as_run(rows.set_column(at, WEIGHT, pa.array(-_longs(rows, WEIGHT)))))


def _timed(rows: pa.Table) -> pa.Table:
    """Rows without those that never close."""
    return rows.filter(pc.is_valid(rows.column(CLOSES)))


def _longs(rows: pa.Table, name: str) -> Longs:
    found: Longs = one_array(rows.column(name)).to_numpy(zero_copy_only=False).astype(np.int64)
    return found
