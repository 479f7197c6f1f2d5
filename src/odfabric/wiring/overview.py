"""What there is on a node, in numbers that are cheap to have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from odfabric.model.instant import Instant
from odfabric.model.job import JobStatus
from odfabric.wiring.node_ports import NodePorts

COUNTED_MAX = 1000
"""Things of one kind that are counted; of more it is said that there are more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Numbers above `COUNTED_MAX` say only that there are more. `jobs` are kind, status and number of those that are not finished."""

    accounts: int
    datasets: int
    jobs: Sequence[tuple[str, str, int]]
    oldest_waiting: Instant | None


def overview(ports: NodePorts) -> Overview:
    """Raises Determinate or Indeterminate for outside failures."""
    jobs = ports.jobs.page(unfinished_only=True, limit=COUNTED_MAX + 1)
    waiting = [job.created_at for job in jobs if job.status is JobStatus.QUEUED]
    counted = Counter((job.kind.value, job.status.value) for job in jobs)
    return Overview(
        accounts=len(ports.accounts.page(limit=COUNTED_MAX + 1)),
        datasets=len(ports.catalog.page(limit=COUNTED_MAX + 1)),
        jobs=[(kind, status, number) for (kind, status), number in sorted(counted.items())],
        oldest_waiting=min(waiting, key=lambda moment: moment.epoch_ns, default=None),
    )
