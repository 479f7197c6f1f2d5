"""Give a flow a cause to run: at most one run waits, and later causes join it."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from odfabric.domain.flows.flow_steps import with_cause
from odfabric.errors import Determinate
from odfabric.model.instant import Instant
from odfabric.model.jobs.flow import Cause, Flow, FlowRun
from odfabric.ports.jobs.flows import Flows
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.rights.access import Access

_log = logging.getLogger(__name__)

WRITE_ATTEMPTS_MAX = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowPorts:
    """What flows are run with.

    `repository` sees every dataset; with `derivatives_follow` derivative datasets follow their inputs unless somebody
    decides otherwise."""

    flows: Flows
    jobs: Jobs
    repository: Repository
    access: Access
    clock: Clock
    entropy: Entropy
    derivatives_follow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class FlowLimits:
    """`at_once_max` runs are at work together.

    A run waits at most `wave_wait_s` seconds for others of its wave; the last `runs_kept_max` ended runs of each flow
    are kept."""

    at_once_max: int
    wave_wait_s: float
    runs_kept_max: int


def new_id(entropy: Entropy) -> str:
    """An identity for a flow or a run."""
    return entropy.random_bytes(12).hex()


def cause_run(
    flow: Flow, cause: Cause, *, wave: int, ports: FlowPorts, due_at: Instant | None = None
) -> FlowRun | None:
    """The run of the flow that waits, with this cause.

    A new one if none waits, None if the flow is gone meanwhile.
    """
    flows, due = ports.flows, due_at or cause.at
    for _ in range(WRITE_ATTEMPTS_MAX):
        waiting = flows.waiting(flow.id)
        if waiting is not None:
            run = with_cause(waiting, cause, due_at=due)
        else:
            run = _new_run(flow, cause, due, wave=wave, entropy=ports.entropy)
        if flows.write(run=run):
            return flows.run(run.id)
        if flows.get(flow.id) is None:
            return None
    raise Determinate(f"the runs of flow {flow.id} change faster than one can be added")


def _new_run(flow: Flow, cause: Cause, due: Instant, *, wave: int, entropy: Entropy) -> FlowRun:
    return FlowRun(
        id=new_id(entropy),
        flow_id=flow.id,
        dataset_id=flow.dataset_id,
        wave=wave,
        causes=(cause,),
        cause_count=1,
        due_at=due,
        created_at=cause.at,
        updated_at=cause.at,
    )
