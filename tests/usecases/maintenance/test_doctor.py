"""Checks of surroundings: reports, failures, and independence of each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.adapters.memory.jobs.duties import MemoryDuties
from odfabric.adapters.memory.node.clock import SeededEntropy, SettableClock
from odfabric.adapters.memory.node.sealing import MemorySealing
from odfabric.adapters.memory.node.surroundings import InlineBounded, MemoryProbe, MemoryWorkspaceProbe
from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.errors import AccessDenied, Determinate
from odfabric.model.engine import EngineInfo
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.model.jobs.duty import Duty, DutyReport
from odfabric.model.node.finding import Finding, Outcome
from odfabric.model.node.surroundings import DatabaseState, DiskState, EngineMachine, FileState, RedisState
from odfabric.ports.node.sealing import SealedRow
from odfabric.usecases.doctor.diagnose import Check, diagnose, is_broken
from odfabric.usecases.doctor.process_checks import engine_checks, versions_check, worker_check
from odfabric.usecases.doctor.sealing_check import sealing_check
from odfabric.usecases.doctor.server_checks import database_checks, objects_check, redis_check
from odfabric.usecases.doctor.workspace_checks import RoomLimits, workspace_checks

MIB = 1024 * 1024
NOW = Instant.parse("2026-01-01T00:00:00Z")
LIMITS = RoomLimits(free_mib_min=100, free_share_min=0.1)
DATABASE = DatabaseState(
    version="16.1", revision="0014", needed="0014", asked_at=NOW, answer_s=0.2, now=NOW, newest=NOW
)
MACHINE = EngineMachine(java="21", java_problem="", namespaces=True, landlock=True, available_mib=4000)
ENGINE = EngineInfo(
    name="spark", version="1", digest="d", spark_version="4.3", java_version="21", sandbox=("no-network", "seccomp")
)


def after(seconds: float) -> Instant:
    return Instant(NOW.epoch_ns + int(seconds * NANOS_PER_SECOND))


def told(*checks: Check) -> dict[str, Finding]:
    return {finding.name: finding for finding in diagnose(checks, bounded=InlineBounded(), within_s=1.0)}


def workspace(probe: MemoryWorkspaceProbe) -> dict[str, Finding]:
    return told(*workspace_checks(probe, path="/node", limits=LIMITS))


def database(state: DatabaseState | None, now: Instant = NOW) -> dict[str, Finding]:
    probe: MemoryProbe[DatabaseState] = MemoryProbe(state)
    return told(*database_checks(probe, kind="PostgreSQL", is_file=False, clock=SettableClock(now), offset_s_max=2.0))


def test_no_check_stops_another() -> None:
    ok = Finding(name="fine", outcome=Outcome.OK, seen="fine")

    def raises(error: Exception) -> Sequence[Finding]:
        raise error

    hangs = Check("hangs", lambda: [ok], "wait")
    checks = [
        hangs,
        Check("away", lambda: raises(Determinate("it is away")), "start it"),
        Check("hinted", lambda: raises(AccessDenied("others may read it", hint="chmod 600")), "start it"),
        Check("system", lambda: raises(OSError(28, "No space left on device")), "make room"),
        Check("bug", lambda: raises(RuntimeError("password=hunter2")), "tell us"),
        Check("cannot", lambda: raises(Determinate("it is away")), "start the other", failed=Outcome.WARNING),
        Check("fine", lambda: [ok], ""),
    ]
    found = diagnose(checks, bounded=InlineBounded([hangs.look]), within_s=3.0)
    assert [(one.name, one.outcome.value, one.seen, one.remedy) for one in found] == [
        ("hangs", "broken", "no answer within 3 s", "wait"),
        ("away", "broken", "it is away", "start it"),
        ("hinted", "broken", "others may read it", "chmod 600"),
        ("system", "broken", "No space left on device", "make room"),
        ("bug", "broken", "the check itself failed (RuntimeError)", "tell us"),
        ("cannot", "warning", "it is away", "start the other"),
        ("fine", "ok", "fine", None),
    ]
    assert is_broken(found)
    assert not is_broken(found[-2:])


def test_a_workspace_that_is_as_it_should_be_needs_nothing() -> None:
    found = workspace(MemoryWorkspaceProbe())
    assert set(found) == {"workspace", "disk", "inodes", "secret-files"}
    assert {(one.outcome, one.remedy) for one in found.values()} == {(Outcome.OK, None)}


@pytest.mark.parametrize(
    ("disk", "name", "outcome"),
    [
        (DiskState(99 * MIB, 200 * MIB, 9000, 9000), "disk", Outcome.BROKEN),
        (DiskState(100 * MIB, 2000 * MIB, 9000, 9000), "disk", Outcome.WARNING),
        (DiskState(100 * MIB, 1000 * MIB, 9000, 9000), "disk", Outcome.OK),
        (DiskState(900 * MIB, 1000 * MIB, 999, 2000), "inodes", Outcome.BROKEN),
        (DiskState(900 * MIB, 1000 * MIB, 1000, 20000), "inodes", Outcome.WARNING),
        (DiskState(900 * MIB, 1000 * MIB, 0, 0), "inodes", Outcome.OK),
    ],
)
def test_room_is_judged(disk: DiskState, name: str, outcome: Outcome) -> None:
    finding = workspace(MemoryWorkspaceProbe(room=disk))[name]
    assert finding.outcome is outcome
    assert (finding.remedy is None) == (outcome is Outcome.OK)


def test_a_folder_or_file_that_others_can_use_is_broken() -> None:
    shared = workspace(MemoryWorkspaceProbe(state=FileState("workspace", 0o770, is_own=True, is_readable=True)))
    assert (shared["workspace"].outcome, shared["workspace"].remedy) == (Outcome.BROKEN, "chmod 700 /node")
    foreign = workspace(MemoryWorkspaceProbe(state=FileState("workspace", 0o700, is_own=False, is_readable=True)))
    assert foreign["workspace"].outcome is Outcome.WARNING
    files = [
        FileState("node.token", 0o644, is_own=True, is_readable=True),
        FileState("fine.key", 0o600, is_own=True, is_readable=True),
    ]
    secrets = workspace(MemoryWorkspaceProbe(files=files))["secret-files"]
    assert (secrets.outcome, secrets.remedy) == (Outcome.BROKEN, "chmod 600 /node/node.token")
    closed = [FileState("node.token", 0o600, is_own=False, is_readable=False)]
    assert "cannot read node.token" in workspace(MemoryWorkspaceProbe(files=closed))["secret-files"].seen
    full = workspace(MemoryWorkspaceProbe(refuses_writes="No space left on device"))["workspace"]
    assert (full.outcome, full.seen) == (Outcome.BROKEN, "the folder cannot be written: No space left on device")


def test_a_database_is_at_this_release_behind_or_ahead() -> None:
    assert database(DATABASE)["database"].outcome is Outcome.OK
    behind = database(replace(DATABASE, revision="0013"))["database"]
    assert (behind.outcome, behind.remedy) == (Outcome.BROKEN, "odf init")
    assert database(replace(DATABASE, revision=""))["database"].outcome is Outcome.BROKEN
    ahead = database(replace(DATABASE, revision="0015"))["database"]
    assert (ahead.outcome, "newer than this release's 0014" in ahead.seen) == (Outcome.WARNING, True)
    away = database(None)
    assert (away["database"].outcome, away["clock"].outcome) == (Outcome.BROKEN, Outcome.WARNING)


def test_clocks_that_are_apart_are_told() -> None:
    assert database(replace(DATABASE, now=after(2.05)))["clock"].outcome is Outcome.OK  # half of the answer's time
    for offset in (2.5, -2.5):
        assert database(replace(DATABASE, now=after(offset)))["clock"].outcome is Outcome.WARNING
    future = database(replace(DATABASE, newest=after(10)))["clock"]
    assert (future.outcome, future.seen) == (Outcome.WARNING, "the newest block is 10.0 s in the future")
    assert database(replace(DATABASE, now=None, newest=None))["clock"].outcome is Outcome.OK


def test_objects_are_told_by_the_error_of_their_store() -> None:
    objects = MemoryObjectStore(SettableClock(NOW))

    def check() -> None:
        objects.put_bytes("probe-1", b"x")

    assert told(objects_check(check, kind="S3, bucket"))["objects"].outcome is Outcome.OK
    broken = FaultPlan.single(0, Fault.BEFORE).objects(objects)
    found = told(objects_check(lambda: broken.put_bytes("probe-1", b"x"), kind="S3, bucket"))["objects"]
    assert found.outcome is Outcome.BROKEN
    assert found.remedy is not None
    assert "ODF_OBJECTS_URL" in found.remedy


@pytest.mark.parametrize(
    ("state", "outcome"),
    [
        (RedisState("8.0", "noeviction"), Outcome.OK),
        (RedisState("8.0", ""), Outcome.OK),
        (RedisState("8.0", "allkeys-lru"), Outcome.WARNING),
        (None, Outcome.BROKEN),
    ],
)
def test_redis_must_forget_nothing(state: RedisState | None, outcome: Outcome) -> None:
    probe: MemoryProbe[RedisState] = MemoryProbe(state)
    assert told(redis_check(probe))["redis"].outcome is outcome


def engine(
    running: EngineInfo | None, machine: EngineMachine | None = None, *, must_seal: bool = False
) -> tuple[Finding, Finding]:
    probe = None if machine is None else MemoryProbe(machine)
    found = told(*engine_checks(lambda: running, probe, memory_mib=3072, must_seal=must_seal))
    return found["engine"], found["engine-walls"]


def test_an_engine_answers_or_could_be_started() -> None:
    answers, sealed = engine(ENGINE)
    assert (answers.outcome, sealed.outcome) == (Outcome.OK, Outcome.OK)
    assert engine(replace(ENGINE, sandbox=("seccomp",)))[1].outcome is Outcome.WARNING
    could, walls = engine(None, MACHINE)
    assert (could.outcome, walls.outcome) == (Outcome.OK, Outcome.OK)
    small, _ = engine(None, replace(MACHINE, available_mib=1000))
    assert (small.outcome, "1000 MiB" in small.seen) == (Outcome.WARNING, True)
    no_java, _ = engine(None, replace(MACHINE, java="", java_problem="no Java runtime was found"))
    assert (no_java.outcome, no_java.seen) == (Outcome.BROKEN, "no Java runtime was found")
    assert engine(None)[0].outcome is Outcome.BROKEN
    assert engine(None, replace(MACHINE, namespaces=False))[1].outcome is Outcome.WARNING
    assert engine(None, replace(MACHINE, namespaces=False), must_seal=True)[1].outcome is Outcome.BROKEN


def workers(reports: Sequence[DutyReport], *, has_servers: bool = True) -> Finding:
    duties = MemoryDuties()
    for report in reports:
        duties.report(report)
    return told(worker_check(duties, clock=SettableClock(NOW), has_servers=has_servers))["workers"]


def test_workers_that_are_lost_or_fail_are_told() -> None:
    good = [DutyReport(duty=duty, worker="w/1", at=NOW) for duty in Duty]
    assert workers(good).outcome is Outcome.OK
    assert workers([]).outcome is Outcome.BROKEN
    assert workers([], has_servers=False).outcome is Outcome.OK
    failing = replace(good[0], error="the disk is full", failing_since=NOW)
    found = workers([failing, *good[1:]])
    assert (found.outcome, found.seen) == (Outcome.WARNING, "duties that fail: relay: the disk is full")
    assert workers(good[:-1]).seen == "no worker reports collect"


def test_the_key_must_open_what_is_sealed() -> None:
    sealing = MemorySealing(SeededEntropy(1))
    row = SealedRow("k", b"context", sealing.seal(b"hunter2", context=b"context"))

    def found(rows: Sequence[SealedRow], key: MemorySealing = sealing) -> Finding:
        return told(sealing_check(key, lambda: rows, key_name="the.key"))["sealing-key"]

    assert (found([]).outcome, found([row]).outcome) == (Outcome.OK, Outcome.OK)
    other = found([row], MemorySealing(SeededEntropy(2)))
    assert other.outcome is Outcome.BROKEN
    assert other.seen.startswith("the.key does not open secrets of the database: ")
    moved = found([replace(row, context=b"another row")])
    assert moved.outcome is Outcome.BROKEN
    assert "hunter2" not in other.seen + moved.seen


def test_versions_are_for_whoever_reads() -> None:
    found = told(versions_check(lambda: {"odfabric": "1.2", "Python": "3.11"}))["versions"]
    assert found.to_value() == {
        "name": "versions",
        "outcome": "ok",
        "seen": "odfabric 1.2, Python 3.11",
        "remedy": None,
    }
