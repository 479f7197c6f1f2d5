"""What people do with flows: set, pause, resume, run now, cancel a run, and look.

Invariant: a flow runs with the rights of the one who set it last, as they are at each run; to see and change the flows of a dataset one needs
the right to change the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from odfabric.domain.flows.flow_readiness import Readiness
from odfabric.domain.flows.flow_schedule import check_cron
from odfabric.domain.flows.flow_steps import cancelled, resumed, ruled
from odfabric.domain.people.access import Action, Subject, Verdict, owner_of
from odfabric.errors import Changed, InvalidRequest, NotFound
from odfabric.formats.manifests.durations import duration_text
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.jobs.flow import (
    Cause,
    CauseKind,
    Cron,
    Every,
    Flow,
    FlowKind,
    FlowRule,
    FlowRun,
    Reactive,
    RunStatus,
)
from odfabric.model.metadata import DatasetKind
from odfabric.model.people.audit import AuditEntry, AuditKind
from odfabric.usecases.flows.causes import WRITE_ATTEMPTS_MAX, FlowLimits, FlowPorts, cause_run, new_id
from odfabric.usecases.flows.follow_inputs import following_flow, is_behind
from odfabric.usecases.flows.waits import RunsView
from odfabric.usecases.jobs.job_actor import account_of


@dataclass(frozen=True, slots=True)
class SeenFlow:
    """A flow with its dataset, its newest runs, and why the waiting one waits."""

    flow: Flow
    entry: CatalogEntry
    runs: tuple[FlowRun, ...]
    waits: Readiness | None


def kinds_of(entry: CatalogEntry) -> tuple[FlowKind, ...]:
    """Which flows a dataset can have."""
    if entry.remote_url is not None:
        return (FlowKind.MIRROR, FlowKind.VERIFY)
    own = FlowKind.TRANSFORM if entry.kind is DatasetKind.DERIVATIVE else FlowKind.POLL
    return (own, FlowKind.VERIFY)


def flows_of(
    entry: CatalogEntry, *, subject: Subject, ports: FlowPorts, limits: FlowLimits, runs: int
) -> list[SeenFlow]:
    """The flows of a dataset, each with its last `runs` runs.

    Raises NotFound, AccessDenied.
    """
    ports.access.require(subject, Action.WRITE, entry)
    following_flow(entry, ports=ports)
    view = RunsView.now(ports, limits)
    found = ports.flows.of_dataset(entry.id)
    return [_seen(flow, entry, view, ports.flows.runs(flow_id=flow.id, limit=runs)) for flow in found]


def all_flows(*, subject: Subject, ports: FlowPorts, limits: FlowLimits, flows_max: int) -> list[SeenFlow]:
    """Flows of all datasets that the subject may change, each with its last run.

    Among the first `flows_max` of the node.

    Those with unfinished runs come first, then those that do not run by themselves.
    """
    view = RunsView.now(ports, limits)
    flows = ports.flows.page(limit=flows_max)
    last = ports.flows.last_runs([flow.id for flow in flows])
    entries = _writable_entries({flow.dataset_id for flow in flows}, subject, ports)
    found = [
        _seen(flow, entries[flow.dataset_id], view, [last[flow.id]] if flow.id in last else [])
        for flow in flows
        if flow.dataset_id in entries
    ]
    return sorted(found, key=lambda seen: (not _is_busy(seen), seen.flow.active, str(seen.entry.alias)))


def _writable_entries(
    datasets: Collection[DatasetId], subject: Subject, ports: FlowPorts
) -> dict[DatasetId, CatalogEntry]:
    """Those of the datasets that the subject may change, by one look at the grants."""
    grants = ports.access.relations.granted(list(datasets), subject.grantees)
    found: dict[DatasetId, CatalogEntry] = {}
    for dataset in datasets:
        entry = ports.repository.find(dataset)
        if entry is not None:
            owner, own = owner_of(entry.alias), grants.get(dataset, ())
            verdict = ports.access.policy.decide(subject, Action.WRITE, dataset, owner, own)
            if verdict is Verdict.ALLOWED:
                found[dataset] = entry
    return found


def set_flow(
    entry: CatalogEntry,
    kind: FlowKind,
    rule: FlowRule,
    *,
    subject: Subject,
    ports: FlowPorts,
    every_s_min: int,
    if_version: int | None = None,
) -> Flow:
    """Make the flow of this kind, or put it under another rule.

    It runs with the rights of the subject from now on.

    `if_version` is the version that the subject has seen. Raises NotFound, AccessDenied, InvalidRequest, Changed if somebody else has written since.
    """
    ports.access.require(subject, Action.WRITE, entry)
    check_rule(rule, kind, entry, every_s_min=every_s_min)
    if kind is FlowKind.POLL and ports.repository.current(entry.id)[1].polling_source is None:
        raise InvalidRequest(
            f"{entry.alias} has no polling source", hint="give it one (`odf set-source`), or push to it"
        )
    for _ in range(WRITE_ATTEMPTS_MAX):
        now, known = ports.clock.now(), ports.flows.of_kind(entry.id, kind)
        if if_version is not None and (known.version if known else 0) != if_version:
            raise _changed()
        base = known or _new(entry, kind, rule, ports)
        flow = replace(ruled(base, rule, now=now), owner=account_of(subject))
        if ports.flows.write(flow=flow, audit=[_entry("set", flow, entry, subject)]):
            return _after_change(flow, entry, ports)
    raise _changed()


def check_rule(rule: FlowRule, kind: FlowKind, entry: CatalogEntry, *, every_s_min: int) -> None:
    """Raises InvalidRequest for a rule that the dataset cannot have."""
    if kind not in kinds_of(entry):
        known = " or ".join(each.value for each in kinds_of(entry))
        raise InvalidRequest(f"{entry.alias} has no flow that can {kind.value}", hint=f"its flows are {known}")
    match rule.trigger:
        case Every(seconds=seconds) if seconds < every_s_min:
            raise InvalidRequest(
                f"a flow runs every {duration_text(every_s_min)} at most (`flow_every_s_min`)",
                hint="write a longer duration",
            )
        case Cron():
            check_cron(rule.trigger)
        case Reactive() if kind is not FlowKind.TRANSFORM:
            raise InvalidRequest("only a derivative dataset follows inputs", hint="write `every` or `cron`")
        case _:
            pass


def pause_flow(entry: CatalogEntry, kind: FlowKind, *, subject: Subject, ports: FlowPorts) -> Flow:
    """Start no runs any more; one that runs goes on. Raises NotFound, AccessDenied."""
    return _change(entry, kind, "paused", lambda flow: replace(flow, paused=True), subject=subject, ports=ports)


def resume_flow(entry: CatalogEntry, kind: FlowKind, *, subject: Subject, ports: FlowPorts) -> Flow:
    """Start runs again, also after failures had stopped it.

    At once if inputs have moved meanwhile. Raises NotFound, AccessDenied.
    """
    now = ports.clock.now()
    flow = _change(entry, kind, "resumed", lambda flow: resumed(flow, now=now), subject=subject, ports=ports)
    return _after_change(flow, entry, ports)


def remove_flow(entry: CatalogEntry, kind: FlowKind, *, subject: Subject, ports: FlowPorts) -> None:
    """Delete a flow with its runs.

    Raises NotFound, AccessDenied; InvalidRequest for what derivative datasets have in any case.
    """
    flow = _writable(entry, kind, subject, ports)
    if kind is FlowKind.TRANSFORM and ports.derivatives_follow:
        raise InvalidRequest("a derivative dataset always has this flow", hint="pause it")
    for _ in range(WRITE_ATTEMPTS_MAX):
        if ports.flows.delete(flow, audit=[_entry("removed", flow, entry, subject)]):
            return
        flow = _writable(entry, kind, subject, ports)
    raise _changed()


def run_now(entry: CatalogEntry, kind: FlowKind, *, subject: Subject, ports: FlowPorts) -> FlowRun:
    """Have it run as soon as possible, also if it is paused.

    Raises NotFound, AccessDenied.
    """
    flow = _writable(entry, kind, subject, ports)
    cause = Cause(CauseKind.HAND, ports.clock.now(), who=subject.actor.name)
    run = cause_run(flow, cause, wave=ports.flows.last_wave() + 1, ports=ports)
    if run is None:
        raise NotFound("flow", f"{kind.value} of {entry.alias}")
    return run


def cancel_run(run_id: str, *, subject: Subject, ports: FlowPorts) -> FlowRun:
    """End an unfinished run. Raises NotFound.

    One that waits ends at once, the job of one that runs at its next sign of life.
    """
    for _ in range(WRITE_ATTEMPTS_MAX):
        run, _ = seen_run(run_id, subject=subject, ports=ports)
        if run.status is RunStatus.RUNNING and run.job_id is not None:
            ports.jobs.cancel(run.job_id, now=ports.clock.now())
            return run
        if run.status.final or ports.flows.write(run=cancelled(run, now=ports.clock.now())):
            return ports.flows.run(run_id) or run
    raise _changed()


def seen_run(run_id: str, *, subject: Subject, ports: FlowPorts) -> tuple[FlowRun, CatalogEntry]:
    """A run and its dataset, which the subject may change. Raises NotFound."""
    run = ports.flows.run(run_id)
    entry = ports.repository.find(run.dataset_id) if run else None
    if run is None or entry is None or not ports.access.allows(subject, Action.WRITE, entry):
        raise NotFound("run", run_id)
    return run, entry


def _change(
    entry: CatalogEntry,
    kind: FlowKind,
    what: str,
    change: Callable[[Flow], Flow],
    *,
    subject: Subject,
    ports: FlowPorts,
) -> Flow:
    for _ in range(WRITE_ATTEMPTS_MAX):
        flow = replace(change(_writable(entry, kind, subject, ports)), updated_at=ports.clock.now())
        if ports.flows.write(flow=flow, audit=[_entry(what, flow, entry, subject)]):
            return ports.flows.get(flow.id) or flow
    raise _changed()


def _writable(entry: CatalogEntry, kind: FlowKind, subject: Subject, ports: FlowPorts) -> Flow:
    ports.access.require(subject, Action.WRITE, entry)
    if kind is FlowKind.TRANSFORM:
        following_flow(entry, ports=ports)
    flow = ports.flows.of_kind(entry.id, kind)
    if flow is None:
        raise NotFound("flow", f"{kind.value} of {entry.alias}", hint="set it first, with a trigger")
    return flow


def _new(entry: CatalogEntry, kind: FlowKind, rule: FlowRule, ports: FlowPorts) -> Flow:
    now = ports.clock.now()
    return Flow(
        id=new_id(ports.entropy),
        dataset_id=entry.id,
        kind=kind,
        owner="",
        rule=rule,
        created_at=now,
        updated_at=now,
    )


def _after_change(flow: Flow, entry: CatalogEntry, ports: FlowPorts) -> Flow:
    """What inputs have had meanwhile is caught up with."""
    if flow.kind is FlowKind.TRANSFORM and flow.active and is_behind(entry, ports.repository):
        cause = Cause(CauseKind.INPUT, ports.clock.now(), dataset=entry.id)
        cause_run(flow, cause, wave=ports.flows.last_wave() + 1, ports=ports)
    return ports.flows.get(flow.id) or flow


def _seen(flow: Flow, entry: CatalogEntry, view: RunsView, runs: Sequence[FlowRun]) -> SeenFlow:
    waiting = view.waiting_of(flow.id)
    return SeenFlow(flow, entry, tuple(runs), None if waiting is None else view.verdict(waiting, flow))


def _is_busy(seen: SeenFlow) -> bool:
    return any(not run.status.final for run in seen.runs)


def _entry(what: str, flow: Flow, entry: CatalogEntry, subject: Subject) -> AuditEntry:
    return AuditEntry(
        kind=AuditKind.FLOW_CHANGED,
        actor=subject.actor,
        at=flow.updated_at,
        target=str(entry.alias),
        dataset=entry.id,
        detail={"flow": flow.id, "kind": flow.kind.value, "what": what},
    )


def _changed() -> Changed:
    return Changed("somebody else has changed the flow meanwhile", hint="look at it again, then change it")
