"""A head has moved: whatever is derived from it runs.

A move plans a wave: a run for each derivative dataset between the one that moved and the last that follows, so that each of them is computed
once, after those before it (`domain.flows.flow_readiness`). Invariant: what a wave finds is in the chains, so a move that is handled twice, or
whose relay died in the middle, plans nothing that is done already. A derivative dataset without a flow gets the one that follows at once.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from odfabric.domain.chain.state import ChainState, last_input_block_of
from odfabric.domain.flows.flow_steps import resumed
from odfabric.errors import Corrupt, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.jobs.flow import Cause, CauseKind, Flow, FlowKind, FlowRule, Reactive
from odfabric.model.metadata import DatasetKind
from odfabric.model.multihash import Multihash
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.datasets.derivatives import inputs_at, inputs_of_state, possible_readers, records_read
from odfabric.usecases.flows.causes import FlowPorts, cause_run, new_id

_log = logging.getLogger(__name__)

WAVE_DATASETS_MAX = 1000
"""Derivative datasets of one wave; those beyond follow when what is before them has moved."""


def follow_head(dataset: DatasetId, *, ports: FlowPorts) -> int:
    """Give the followers of a moved or deleted dataset a cause to run; how many.

    What is wrong with one dataset is logged and stops no other. Raises Determinate, Indeterminate.
    """
    entry = ports.repository.find(dataset)
    if entry is None:
        return 0
    try:
        own = follow_own_change(entry, ports)
        return own + plan_wave([entry], Cause(CauseKind.INPUT, ports.clock.now(), dataset=dataset), ports=ports)
    except (Corrupt, NotFound) as error:
        _log.warning("what follows %s was not looked at: %s", entry.alias, error)
        return 0


def plan_wave(moved: list[CatalogEntry], cause: Cause, *, ports: FlowPorts) -> int:
    """Give all direct and indirect followers of datasets a cause; how many.

    A dataset that has read all that its inputs have gets none, and what only it would lead to neither; the same for one that waits for
    a number of records, for a time or for a person, and one that is at rest.
    """
    wave, reached = 0, {entry.id for entry in moved}
    frontier, count = list(moved), 0
    while frontier and len(reached) < WAVE_DATASETS_MAX:
        following: list[CatalogEntry] = []
        for source in frontier:
            for reader in _readers(source, ports.repository):
                if reader.id in reached:
                    continue
                flow = following_flow(reader, ports=ports)
                direct = source in moved
                if flow is None or not flow.active or (direct and not is_behind(reader, ports.repository)):
                    continue
                reached.add(reader.id)
                if not direct and not _follows_at_once(flow):
                    continue
                wave = wave or ports.flows.last_wave() + 1
                if cause_run(flow, replace(cause, dataset=source.id), wave=wave, ports=ports) is not None:
                    count += 1
                if _follows_at_once(flow):
                    following.append(reader)
        frontier = following
    return count


def following_flow(entry: CatalogEntry, *, ports: FlowPorts) -> Flow | None:
    """The flow that keeps a derivative dataset up to date, made if there is none.

    None for what is not derived here.
    """
    if entry.kind is not DatasetKind.DERIVATIVE or entry.remote_url is not None:
        return None
    found = ports.flows.of_kind(entry.id, FlowKind.TRANSFORM)
    if found is not None or not ports.derivatives_follow:
        return found
    now = ports.clock.now()
    flow = Flow(
        id=new_id(ports.entropy),
        dataset_id=entry.id,
        kind=FlowKind.TRANSFORM,
        owner=_owner(entry, ports),
        rule=FlowRule(trigger=Reactive()),
        is_default=True,
        created_at=now,
        updated_at=now,
    )
    ports.flows.write(flow=flow)
    return ports.flows.of_kind(entry.id, FlowKind.TRANSFORM)


def is_behind(entry: CatalogEntry, repository: Repository) -> bool:
    """Whether an input has blocks that the dataset has not read.

    Without a run so far, whether there is an input with any data.
    """
    _, state = repository.current(entry.id)
    read = _read_blocks(state)
    for dataset in inputs_of_state(state):
        head = repository.chains.head(dataset)
        if head is None or read.get(dataset) == head.hash:
            continue
        if dataset in read or repository.state(dataset, head.hash).last_data is not None:
            return True
    return False


def records_behind(entry: CatalogEntry, repository: Repository) -> int:
    """How many records its inputs have that the dataset has not read."""
    _, state = repository.current(entry.id)
    total = 0
    for dataset in inputs_of_state(state):
        head = repository.chains.head(dataset)
        if head is not None:
            total += repository.state(dataset, head.hash).next_offset - records_read(dataset, state)
    return max(0, total)


def _read_blocks(state: ChainState) -> dict[DatasetId, Multihash | None]:
    runs = state.execute_transform.event.query_inputs if state.execute_transform else ()
    return {progress.dataset_id: last_input_block_of(progress) for progress in runs}


def follow_own_change(entry: CatalogEntry, ports: FlowPorts) -> int:
    """Give a new, outdated or changed derivative a cause to run; how many.

    A flow that its query had stopped goes on with the new one. Raises Corrupt, NotFound, Determinate, Indeterminate.
    """
    flow = following_flow(entry, ports=ports)
    if flow is None:
        return 0
    head = ports.repository.head(entry.id)
    stop = flow.stop
    changed = stop is not None and stop.head is not None and stop.head != head.hash
    if changed:
        flow = resumed(flow, now=ports.clock.now())
        if not ports.flows.write(flow=flow):
            return 0
    if not flow.active or not (changed or is_behind(entry, ports.repository)):
        return 0
    _, state = ports.repository.current(entry.id)
    kind = CauseKind.CHANGE if changed or state.execute_transform is None else CauseKind.INPUT
    cause = Cause(kind, ports.clock.now(), dataset=entry.id if kind is CauseKind.CHANGE else None)
    wave = ports.flows.last_wave() + 1
    return int(cause_run(flow, cause, wave=wave, ports=ports) is not None)


def _follows_at_once(flow: Flow) -> bool:
    trigger = flow.rule.trigger
    return isinstance(trigger, Reactive) and trigger.at_once


def _readers(entry: CatalogEntry, repository: Repository) -> list[CatalogEntry]:
    readers: list[CatalogEntry] = []
    for other in possible_readers(entry.id, repository):
        head = repository.chains.head(other.id)
        if head is not None and entry.id in inputs_at(other, head, repository):
            readers.append(other)
    return readers


def _owner(entry: CatalogEntry, ports: FlowPorts) -> str:
    """The id of the account that the dataset is named under.

    Its name if there is none any more.
    """
    found = ports.access.owner(entry)
    return str(found.id) if found else str(entry.alias.account)
