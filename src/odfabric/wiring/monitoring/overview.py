"""What there is on a node, in numbers that are cheap to have."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from odfabric.model.commit import CatalogEntry
from odfabric.model.instant import Instant
from odfabric.model.jobs.flow import Flow
from odfabric.model.jobs.job import JobStatus
from odfabric.settings import Settings
from odfabric.wiring.node_ports import NodePorts

COUNTED_MAX = 1000
"""Things of one kind that are counted; of more it is said that there are more."""
TROUBLED_SHOWN = 20
"""Flows in trouble that are listed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """Numbers above `COUNTED_MAX` say only that there are more.

    `jobs` are kind, status and number of those that are not finished.

    `troubled` are flows whose last runs failed, those that have stopped first, at most `TROUBLED_SHOWN`; `flows_troubled` counts all of them.
    """

    accounts: int
    datasets: int
    jobs: Sequence[tuple[str, str, int]]
    oldest_waiting: Instant | None
    troubled: Sequence[tuple[CatalogEntry, Flow]]
    flows_troubled: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a node keeps its data: kinds and names of servers, and its disk.

    Names are without credentials; the workspace's disk is None if it does not say how full it is."""

    database: str
    objects: str
    disk: Disk | None


@dataclass(frozen=True, slots=True)
class Disk:
    """How full a disk is; `inodes` is 0 where the file system does not count them."""

    free_bytes: int
    all_bytes: int
    free_inodes: int
    inodes: int


def overview(ports: NodePorts) -> Overview:
    """Raises Determinate or Indeterminate for outside failures."""
    jobs = ports.jobs.page(unfinished_only=True, limit=COUNTED_MAX + 1)
    waiting = [job.created_at for job in jobs if job.status is JobStatus.QUEUED]
    counted = Counter((job.kind.value, job.status.value) for job in jobs)
    failing = [flow for flow in ports.flows.page(limit=COUNTED_MAX + 1) if flow.failures or flow.stop is not None]
    failing.sort(key=lambda flow: (flow.stop is None, -flow.failures, flow.id))
    shown = [(ports.catalog.by_id(flow.dataset_id), flow) for flow in failing[:TROUBLED_SHOWN]]
    return Overview(
        accounts=len(ports.accounts.page(limit=COUNTED_MAX + 1)),
        datasets=len(ports.catalog.page(limit=COUNTED_MAX + 1)),
        jobs=[(kind, status, number) for (kind, status), number in sorted(counted.items())],
        oldest_waiting=min(waiting, key=lambda moment: moment.epoch_ns, default=None),
        troubled=[(entry, flow) for entry, flow in shown if entry is not None],
        flows_troubled=len(failing),
    )


def places(settings: Settings) -> Places:
    """What the settings and the workspace's disk say; asks no server."""
    try:
        usage = shutil.disk_usage(settings.workspace)
        counted = os.statvfs(settings.workspace)
    except OSError:
        disk = None  # a page that says what is wrong must come when the disk is
    else:
        disk = Disk(usage.free, usage.total, counted.f_favail, counted.f_files)
    return Places(
        database=_server(settings.database_url, "PostgreSQL") or "SQLite",
        objects=_server(settings.objects_url, "S3") or "folder",
        disk=disk,
    )


def _server(url: str | None, kind: str) -> str | None:
    """Its kind, host and name: a URL may have a password."""
    if url is None:
        return None
    parts = urlsplit(url)
    return f"{kind}, {parts.hostname or ''}{parts.path}"
