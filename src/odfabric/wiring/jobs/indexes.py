"""Current-state indexes of a node: where they lie, and the verbs on them.

Owns the binding, like `node`, for one subject. Invariant: with `index` off nothing here opens, reads or makes an index.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass

from odfabric.adapters.persist.index_tiers import IndexLimits
from odfabric.adapters.persist.location import (
    BucketPlace,
    OpenBlob,
    OpenConsensus,
    PersistLocation,
    blobs_in_bucket,
    blobs_in_folder,
    versions_in_file,
    versions_in_postgres,
)
from odfabric.adapters.persist.shards import ShardOperations
from odfabric.adapters.persist.state_index import PersistStateIndex
from odfabric.domain.chain.state_index import IndexPace
from odfabric.errors import NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetId
from odfabric.model.jobs.job import Job, JobKind
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.datasets.object_store import ObjectStore
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.ports.subscriptions.signals import Signals, Topic
from odfabric.settings import Settings
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.jobs.job_run import LeasedRun
from odfabric.usecases.state.index_state import IndexWork, bring_forward, enqueue_index, run_index
from odfabric.usecases.state.inspect_index import IndexReport, VerifiedIndex, inspect_index, verify_index
from odfabric.wiring.places.database_place import is_workspace
from odfabric.wiring.places.identity import own_part
from odfabric.wiring.places.stores import bucket_and_prefix, database_server, s3_keys

VERSIONS_FILE = "persist.sqlite3"
BLOBS_FOLDER = "persist"
QUEUED_JOBS_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexVerbs:
    """The verbs on indexes, bound to ports."""

    settings: Settings
    index: StateIndex
    repository: Repository
    jobs: Jobs
    exchange: Exchange
    clock: Clock
    entropy: Entropy
    account: str
    signals: Signals

    @property
    def used(self) -> StateIndex | None:
        """The indexes, None if the node does without."""
        return None if self.settings.index == "off" else self.index

    @property
    def work(self) -> IndexWork:
        """How they are brought forward."""
        settings = self.settings
        return IndexWork(
            pace=IndexPace(
                tail_blocks_max=settings.index_tail_blocks_max,
                tail_rows_min=settings.index_tail_rows_min,
                tail_share_max=settings.index_tail_share_max,
                history_blocks=settings.index_history_blocks,
            ),
            page_blocks_max=settings.index_page_blocks_max,
            page_rows_max=settings.index_page_rows_max,
        )

    def follow(self, dataset: DatasetId) -> None:
        """A dataset has changed: queue the work on its index if there is enough of it."""
        if self.used is None:
            return
        queued = enqueue_index(
            dataset,
            account=self.account,
            repository=self.repository,
            index=self.used,
            jobs=self.jobs,
            clock=self.clock,
            entropy=self.entropy,
            pace=self.work.pace,
        )
        if queued is not None:
            self.signals.send(Topic.JOBS)

    def lease(self, worker: str) -> LeasedRun | None:
        """Take a queued job of this kind, for a command that found one due.

        There may be no worker.
        """
        lease_ms = int(self.settings.lease_s * 1000)
        for job in self.jobs.page(unfinished_only=True, limit=QUEUED_JOBS_MAX):
            if job.kind is JobKind.INDEX:
                lease = self.jobs.lease_one(job.id, worker, now=self.clock.now(), lease_ms=lease_ms)
                if lease is not None:
                    return LeasedRun(lease, jobs=self.jobs, clock=self.clock, lease_ms=lease_ms)
        return None

    def run(self, job: Job, run: LeasedRun) -> Mapping[str, object]:
        """A job of this kind."""
        return run_index(job, run, repository=self.repository, index=self.used, work=self.work)

    def inspect(self, entry: CatalogEntry) -> IndexReport:
        """What index a dataset has."""
        return inspect_index(entry, repository=self.repository, index=self.used)

    def bring_forward(self, entry: CatalogEntry, report: Callable[[EngineProgress], None]) -> IndexReport:
        """Bring the index of a dataset to the head, here and now."""
        if self.used is not None:
            bring_forward(entry.id, repository=self.repository, index=self.used, work=self.work, report=report)
        return self.inspect(entry)

    def rebuild(self, entry: CatalogEntry, report: Callable[[EngineProgress], None]) -> IndexReport:
        """Make the index of a dataset again, from its chain."""
        self.drop(entry)
        return self.bring_forward(entry, report)

    def drop(self, entry: CatalogEntry) -> int:
        """Give all indexes of a dataset up; how many."""
        return self.index.drop(entry.id)

    def verify(self, entry: CatalogEntry) -> VerifiedIndex:
        """Hold the index of a dataset against its chain."""
        return verify_index(
            entry,
            repository=self.repository,
            index=self.used,
            exchange=self.exchange,
            blocks_max=self.settings.chain_blocks_max,
            rows_max=self.settings.state_rows_max,
        )


def open_state_index(
    settings: Settings, location: PersistLocation, *, objects: ObjectStore, exchange: Exchange
) -> PersistStateIndex:
    """The indexes of a node, where its shards lie."""
    limits = IndexLimits(tail_slices_max=settings.index_tail_blocks_max, tail_share_max=settings.index_tail_share_max)
    return PersistStateIndex(location.client, objects, exchange.session, limits)


def persist_location(settings: Settings) -> PersistLocation:
    """Where the shards of a node lie. Nothing is opened before it is needed."""
    return PersistLocation(_blobs(settings), _versions(settings))


def _versions(settings: Settings) -> OpenConsensus:
    server = database_server(settings)
    if server is None:
        return versions_in_file(settings.workspace.absolute() / VERSIONS_FILE)
    return versions_in_postgres(server.replace("postgresql+psycopg://", "postgresql://", 1))


def _blobs(settings: Settings) -> OpenBlob:
    if settings.objects_url is None:
        return blobs_in_folder(settings.workspace.absolute() / BLOBS_FOLDER)
    bucket, prefix = bucket_and_prefix(settings)
    access_key, secret_key = s3_keys(settings)
    return blobs_in_bucket(
        BucketPlace(
            bucket=bucket,
            prefix=f"{prefix}{BLOBS_FOLDER}/{own_part(settings)}",
            endpoint_url=settings.s3_endpoint_url,
            region=settings.s3_region,
            access_key=access_key,
            secret_key=secret_key,
            connect_s_max=settings.s3_connect_s_max,
            read_s_max=settings.s3_read_s_max,
        )
    )


@contextmanager
def open_shards(settings: Settings) -> Iterator[ShardOperations]:
    """Operations on shards, where the node of these settings keeps them.

    Raises NotFound for a folder that is no workspace.
    """
    if not is_workspace(settings):
        raise NotFound("workspace", str(settings.workspace), hint="name the folder of the node with --workspace")
    with closing(persist_location(settings)) as location:
        yield ShardOperations(location)
