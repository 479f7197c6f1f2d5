"""Rows written at a shard's next time: many writers share one batch.

Owns what a group of such writers becomes: their rows, consolidated together, in one batch of one time. Invariants: rows are written
once for each token; a writer that is refused leaves the others in the group alone. When another process wins the race the same
batch moves to a later time, nothing is written again. Source: ADR 0014; ADR 0018.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

import pyarrow as pa

from odfabric_persist import state as transitions
from odfabric_persist.batch import Parts, retimed, tightened, write_batch
from odfabric_persist.errors import Expired, LocationError, UpperMismatch, UsageError
from odfabric_persist.funnel import Funnel, FunnelLimits
from odfabric_persist.rows import DIFF, TIME
from odfabric_persist.state import Batch, State, Writer


@dataclass(frozen=True, slots=True)
class NextRows:
    """Updates of one writer, without times."""

    writer: str
    token: str
    rows: pa.Table


class NextTimes:
    """Gives out the next times of a shard to this process; safe for threads."""

    def __init__(self, parts: Parts, limits: FunnelLimits) -> None:
        self._parts = parts
        self._machine = parts.machine
        self._untimed = parts.codec.update_schema.remove(parts.codec.update_schema.get_field_index(TIME))
        self.funnel: Funnel[NextRows, int] = Funnel(self._write, limits)

    def append(self, writer: str, rows: pa.Table, *, token: str) -> int:
        """Write rows without times; the time that they have.

        Raises UpperMismatch (None), Expired, UsageError (`codec-mismatch`).
        """
        if rows.schema != self._untimed or rows.column(DIFF).null_count:
            # Made fit, or refused, on the caller's own thread: the others in its group must not suffer from it.
            rows = self._parts.codec.updates(_at_zero(rows)).select(self._untimed.names)
        return self.funnel.ask(NextRows(writer, token, rows))

    def _write(self, group: Sequence[NextRows]) -> Sequence[int | Exception]:
        state = self._machine.cached()
        while True:
            known = [_known(state, one) for one in group]
            accepted = [one for one, answer in zip(group, known, strict=True) if answer is None]
            if not accepted:
                fresh = self._machine.newest()
                if fresh.seqno == state.seqno:
                    return [answer for answer in known if answer is not None]
                state = fresh
                continue
            try:
                time = self._append(accepted)
            except UpperMismatch as error:
                return [UpperMismatch(error.current) if answer is None else answer for answer in known]
            except (Expired, UsageError) as error:
                if isinstance(error, UsageError) and error.kind != "written":
                    raise
                # One of them is not what we took it for: who is refused is judged on the newest version.
                state = self._machine.newest()
                continue
            return [time if answer is None else answer for answer in known]

    def _append(self, accepted: Sequence[NextRows]) -> int:
        """One batch of all; its time.

        Raises UpperMismatch if the shard is closed, Expired, UsageError (`written`).
        """
        # The same write may be asked for twice at once, by who lost patience.
        once = {(one.writer, one.token): one.rows for one in accepted}
        batch = write_batch(self._parts, _at_zero(pa.concat_tables(once.values())), 0, 1)
        tokens = {one.writer: one.token for one in accepted}

        def command(state: State) -> State:
            if state.upper is None:
                raise UpperMismatch(None)
            moved = tightened(retimed(batch, state.upper, state.upper + 1), state.upper, state.upper + 1)
            now_ms = self._machine.now_ms()
            return transitions.append_shared(state, tokens, moved, state.upper, now_ms=now_ms)

        try:
            reached = self._machine.apply(command).upper
        except (UpperMismatch, Expired, UsageError):
            self._discard(batch)
            raise
        assert reached is not None
        return reached - 1

    def _discard(self, batch: Batch) -> None:
        """What fails here is found as leaked later."""
        with suppress(LocationError):
            self._parts.discard(batch)


def _at_zero(rows: pa.Table) -> pa.Table:
    return rows.append_column(TIME, pa.repeat(0, rows.num_rows))


def _known(state: State, one: NextRows) -> int | Exception | None:
    """What became of rows that need not be written."""
    writer: Writer | None = state.writers.get(one.writer)
    if state.upper is None:
        return UpperMismatch(None)
    if writer is None:
        return Expired(f"writer {one.writer}")
    if writer.last_token == one.token and writer.last_upper is not None:
        return writer.last_upper - 1
    return None
