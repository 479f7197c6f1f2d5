"""Checks of the database, the bucket and Redis: do they answer, do they suit?"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.node.finding import Finding, Outcome
from odfabric.model.node.surroundings import DatabaseState
from odfabric.ports.node.clock import Clock
from odfabric.ports.node.surroundings import DatabaseProbe, RedisProbe
from odfabric.usecases.doctor.diagnose import Check

KEEPS_ALL = "noeviction"


def database_checks(
    probe: DatabaseProbe, *, kind: str, is_file: bool, clock: Clock, offset_s_max: float
) -> Sequence[Check]:
    """`kind` says what database it is, without credentials.

    `offset_s_max` is how far clocks may be apart.
    """
    remedy = "start the database, or correct ODF_DATABASE_URL"
    if is_file:
        remedy = "put the file back from a backup, or move it away: `odf system rebuild` makes it from the objects"
    return [
        Check("database", lambda: [_database(probe.look(), kind)], remedy),
        Check(
            "clock",
            lambda: [_clock(probe.look(), clock.now(), offset_s_max)],
            "the database must answer first",
            failed=Outcome.WARNING,
        ),
    ]


def objects_check(check: Callable[[], None], *, kind: str) -> Check:
    """`check` raises if the objects cannot be reached or written on conditions."""

    def look() -> Sequence[Finding]:
        check()
        return [Finding(name="objects", outcome=Outcome.OK, seen=f"{kind}: reachable, conditional writes are refused")]

    return Check("objects", look, "start the S3 server, or correct ODF_OBJECTS_URL and ODF_S3_ENDPOINT_URL")


def redis_check(probe: RedisProbe) -> Check:
    """Redis wakes workers and counts requests: entries it evicts are missed."""

    def look() -> Sequence[Finding]:
        state = probe.look()
        kept = state.eviction in (KEEPS_ALL, "")
        told = state.eviction or "not told"
        return [
            Finding(
                name="redis",
                outcome=Outcome.OK if kept else Outcome.WARNING,
                seen=f"version {state.version}, eviction policy {told}",
                remedy=None if kept else f"set `maxmemory-policy {KEEPS_ALL}` in the configuration of Redis",
            )
        ]

    return Check("redis", look, "start Redis, or correct ODF_REDIS_URL")


def _database(state: DatabaseState, kind: str) -> Finding:
    seen = f"{kind} {state.version}, revision {state.revision or 'none'}"
    if not state.revision:
        return Finding(
            name="database", outcome=Outcome.BROKEN, seen=f"{seen}: it has no tables of a node", remedy="odf init"
        )
    if state.revision < state.needed:
        seen += f", this release needs {state.needed}"
        return Finding(name="database", outcome=Outcome.BROKEN, seen=seen, remedy="odf init")
    if state.revision > state.needed:
        seen += f", newer than this release's {state.needed}"
        remedy = "install the release that made it; this one may run beside it during an upgrade only"
        return Finding(name="database", outcome=Outcome.WARNING, seen=seen, remedy=remedy)
    return Finding(name="database", outcome=Outcome.OK, seen=seen)


def _clock(state: DatabaseState, now: Instant, offset_s_max: float) -> Finding:
    if state.newest is not None and _ahead_s(state.newest, now) > offset_s_max:
        seen = f"the newest block is {_ahead_s(state.newest, now):.1f} s in the future"
        remedy = "set this machine's clock (`timedatectl`, NTP); the clock of a machine that committed was ahead"
        return Finding(name="clock", outcome=Outcome.WARNING, seen=seen, remedy=remedy)
    if state.now is None:
        return Finding(
            name="clock", outcome=Outcome.OK, seen="no block is in the future; the database is in this machine"
        )
    offset_s = _ahead_s(state.now, state.asked_at)
    seen = f"the database's clock is {offset_s:+.3f} s from this machine's (asked in {state.answer_s:.3f} s)"
    # Half of the time that the question took may be on either way.
    if abs(offset_s) - state.answer_s / 2 > offset_s_max:
        remedy = "keep the time of both machines by NTP (`timedatectl`)"
        return Finding(name="clock", outcome=Outcome.WARNING, seen=seen, remedy=remedy)
    return Finding(name="clock", outcome=Outcome.OK, seen=seen)


def _ahead_s(moment: Instant, of: Instant) -> float:
    return (moment.epoch_ns - of.epoch_ns) / NANOS_PER_SECOND
