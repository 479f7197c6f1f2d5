"""Checks of processes: engine, start of an engine, workers, versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from odfabric.domain.flows.duties import DutyState, state_of
from odfabric.model.engine import EngineInfo
from odfabric.model.jobs.duty import Duty, DutyReport
from odfabric.model.node.finding import Finding, Outcome
from odfabric.ports.jobs.duties import Duties
from odfabric.ports.node.clock import Clock
from odfabric.ports.node.surroundings import EngineMachineProbe
from odfabric.usecases.doctor.diagnose import Check

SEALED_BY = "no-network"
"""The wall that only namespaces give."""


def engine_checks(
    running: Callable[[], EngineInfo | None], machine: EngineMachineProbe | None, *, memory_mib: int, must_seal: bool
) -> Sequence[Check]:
    """`running` asks the engine, None if none runs.

    `machine` is None where the engine is somebody else's process.
    """
    remedy = "start the engine, or correct ODF_ENGINE_ADDRESS and ODF_ENGINE_TOKEN"
    return [
        Check("engine", lambda: [_engine(running(), machine, memory_mib)], remedy),
        Check("engine-walls", lambda: [_walls(running(), machine, must_seal)], remedy),
    ]


def worker_check(duties: Duties, *, clock: Clock, has_servers: bool) -> Check:
    """`has_servers`: processes run by themselves, so workers must be there."""

    def look() -> Sequence[Finding]:
        reports = {report.duty: report for report in duties.reports()}
        return [_workers(reports, clock, has_servers)]

    return Check("workers", look, "the database must answer first", failed=Outcome.WARNING)


def versions_check(versions: Callable[[], Mapping[str, str]]) -> Check:
    """Versions of what runs here, for anyone who reads the findings."""

    def look() -> Sequence[Finding]:
        seen = ", ".join(f"{name} {version}" for name, version in versions().items())
        return [Finding(name="versions", outcome=Outcome.OK, seen=seen)]

    return Check("versions", look, "install the node's environment again")


def _engine(info: EngineInfo | None, machine: EngineMachineProbe | None, memory_mib: int) -> Finding:
    if info is not None:
        seen = f"{info.name} {info.version} answers: Spark {info.spark_version}, Java {info.java_version}"
        return Finding(name="engine", outcome=Outcome.OK, seen=seen)
    if machine is None:
        return Finding(name="engine", outcome=Outcome.BROKEN, seen="it does not answer", remedy="start the engine")
    found = machine.look()
    if not found.java:
        return Finding(
            name="engine",
            outcome=Outcome.BROKEN,
            seen=found.java_problem,
            remedy="install the engine's packages (`pip install odfabric[all]`), or name a Java 17 or 21 in JAVA_HOME",
        )
    seen = f"none runs; one can be started: Java {found.java}"
    if found.available_mib is not None and found.available_mib < memory_mib:
        seen += f", {found.available_mib} MiB of memory available for a heap of {memory_mib} MiB"
        remedy = "free memory, or set ODF_ENGINE_MEMORY_MIB to less"
        return Finding(name="engine", outcome=Outcome.WARNING, seen=seen, remedy=remedy)
    return Finding(name="engine", outcome=Outcome.OK, seen=seen)


def _walls(info: EngineInfo | None, machine: EngineMachineProbe | None, must_seal: bool) -> Finding:
    if info is not None:
        walls, sealed = ", ".join(info.sandbox) or "none", SEALED_BY in info.sandbox
        seen = f"around the running engine: {walls}"
    elif machine is not None:
        found = machine.look()
        sealed = found.namespaces
        seen = f"user namespaces {_can(found.namespaces)}, Landlock {_can(found.landlock)}"
    else:
        return Finding(
            name="engine-walls",
            outcome=Outcome.WARNING,
            seen="the engine does not tell them",
            remedy="start the engine",
        )
    if sealed:
        return Finding(name="engine-walls", outcome=Outcome.OK, seen=seen)
    remedy = (
        "allow user namespaces (sysctl kernel.unprivileged_userns_clone=1, user.max_user_namespaces > 0), "
        "or shut the network of the engine's container as docker-compose.yml does"
    )
    return Finding(
        name="engine-walls", outcome=Outcome.BROKEN if must_seal else Outcome.WARNING, seen=seen, remedy=remedy
    )


def _can(is_possible: bool) -> str:
    return "available" if is_possible else "not available"


def _workers(reports: Mapping[Duty, DutyReport], clock: Clock, has_servers: bool) -> Finding:
    now = clock.now()
    states = {duty: state_of(reports.get(duty), duty, now=now) for duty in Duty}
    failing = [duty.value for duty, state in states.items() if state is DutyState.FAILS]
    silent = [duty.value for duty, state in states.items() if state is DutyState.SILENT]
    if failing:
        remedy = "`odf -o json doctor` and GET /system/duties tell why; look at the log of the worker"
        errors = "; ".join(f"{name}: {reports[Duty(name)].error}" for name in failing)
        return Finding(name="workers", outcome=Outcome.WARNING, seen=f"duties that fail: {errors}", remedy=remedy)
    if len(silent) == len(states):
        seen = "no worker has reported lately"
        if has_servers:
            return Finding(
                name="workers", outcome=Outcome.BROKEN, seen=seen, remedy="start a worker (`python -m odfabric_worker`)"
            )
        return Finding(name="workers", outcome=Outcome.OK, seen=f"{seen}; `odf up` starts one, commands work alone")
    if silent:
        seen = f"no worker reports {', '.join(silent)}"
        remedy = "start a worker for light work: ODF_WORKER_LANE=all or light"
        return Finding(name="workers", outcome=Outcome.WARNING, seen=seen, remedy=remedy)
    workers = sorted({report.worker for report in reports.values()})
    return Finding(name="workers", outcome=Outcome.OK, seen=f"all duties are reported, by {', '.join(workers)}")
