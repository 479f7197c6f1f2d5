"""What people look at, bound to ports: listings, descriptions, blocks, lineage.

Owns the binding, like `node`, for one subject. Everything here is as its reader sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from odfabric.domain.people.access import Subject
from odfabric.domain.people.dataset_search import EVERYTHING, Facets, Narrowing, Order
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job
from odfabric.model.metadata import DataSlice
from odfabric.model.multihash import Multihash
from odfabric.model.node.remembered import Remembered
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.jobs.jobs import Jobs
from odfabric.usecases.chain.read_block import (
    Comparison,
    ReadBlock,
    compare_blocks,
    count_operations,
    read_block,
    read_blocks,
)
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.datasets.describe_dataset import (
    DatasetDescription,
    DatasetSummary,
    SummarisedHead,
    column_names,
    describe_dataset,
    summarise_datasets,
)
from odfabric.usecases.datasets.read_lineage import Lineage, read_lineage
from odfabric.usecases.jobs.jobs_of_subject import JobsAhead, jobs_about, jobs_ahead, seen_jobs
from odfabric.usecases.reading.profile_statistics import KnownClaims, ProfileStatistics, profile_statistics
from odfabric.usecases.rights.access import Access

SUMMARIES_MAX = 20_000
"""Datasets of which a process remembers what listings say; some hundred bytes each."""
CLAIMS_MAX = 2_000
"""Slices of which a process remembers what their statistics say of the columns of a profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowseVerbs:
    """Reading verbs of the console and of whatever else shows datasets to people."""

    access: Access
    jobs: Jobs
    exchange: Exchange
    seen_by: Callable[[Subject], Repository]
    summaries: Remembered[DatasetId, SummarisedHead] = field(default_factory=lambda: Remembered(SUMMARIES_MAX))
    claims: KnownClaims = field(default_factory=lambda: Remembered(CLAIMS_MAX))

    def search(
        self, narrowed: Narrowing = EVERYTHING, *, order: Order = Order.NEWEST, skip: int = 0, limit: int, by: Subject
    ) -> Sequence[DatasetSummary]:
        """Datasets that somebody looks for, of those that they may read."""
        repository = self.seen_by(by)
        found = repository.catalog.found(narrowed, order=order, skip=skip, limit=limit)
        return list(summarise_datasets(found, repository=repository, access=self.access, known=self.summaries))

    def facets(self, narrowed: Narrowing, *, since: Sequence[Instant], limit: int, by: Subject) -> Facets:
        """Counts of what `search` finds, of what they may read."""
        return self.seen_by(by).catalog.facets(narrowed, since=since, limit=limit)

    def describe(self, entry: CatalogEntry, *, by: Subject) -> DatasetDescription:
        """A dataset at its head. Raises NotFound, Corrupt."""
        return describe_dataset(entry, repository=self.seen_by(by), access=self.access)

    def profile(self, entry: CatalogEntry, columns: Sequence[str], *, by: Subject) -> ProfileStatistics:
        """What the statistics of its slices say of some columns. Raises NotFound, Corrupt."""
        return profile_statistics(entry, columns, repository=self.seen_by(by), known=self.claims)

    def column_names(self, entry: CatalogEntry, *, by: Subject) -> list[str]:
        """Names of its columns, none before data came. Raises Corrupt."""
        return column_names(entry, repository=self.seen_by(by))

    def blocks(
        self, entry: CatalogEntry, *, below: int | None, event_types: frozenset[str] | None, limit: int, by: Subject
    ) -> Sequence[ReadBlock]:
        """Blocks newest first, from under a sequence number. Raises Corrupt."""
        return read_blocks(entry, below=below, event_types=event_types, limit=limit, repository=self.seen_by(by))

    def block(self, entry: CatalogEntry, wanted: Multihash, *, by: Subject) -> ReadBlock:
        """A block of this very chain. Raises NotFound, Corrupt."""
        return read_block(entry, wanted, repository=self.seen_by(by))

    def operations(self, entry: CatalogEntry, data: DataSlice, *, by: Subject) -> Mapping[int, int]:
        """How many rows of a slice have each value of `op`. Raises Corrupt."""
        return count_operations(entry, data, repository=self.seen_by(by), exchange=self.exchange)

    def compare(self, entry: CatalogEntry, one: Multihash, another: Multihash, *, by: Subject) -> Comparison:
        """What came between two blocks. Raises NotFound, LimitExceeded, Corrupt."""
        return compare_blocks(entry, one, another, repository=self.seen_by(by), exchange=self.exchange)

    def lineage(self, entry: CatalogEntry, *, depth: int, by: Subject) -> Lineage:
        """Where a dataset comes from, and what is made of it."""
        return read_lineage(entry, depth=depth, repository=self.seen_by(by))

    def jobs_seen(self, entry: CatalogEntry | None, *, limit: int, by: Subject) -> Sequence[Job]:
        """Jobs newest first, of one dataset or of all, that the subject may see."""
        return seen_jobs(entry.id if entry else None, limit=limit, subject=by, access=self.access, jobs=self.jobs)

    def transfers_seen(self, entry: CatalogEntry, *, limit: int, by: Subject) -> Sequence[Job]:
        """Pushes of a dataset elsewhere, newest first, that the subject may see."""
        return jobs_about(entry.id, limit=limit, subject=by, access=self.access, jobs=self.jobs)

    def jobs_ahead(self, job: Job, *, by: Subject) -> JobsAhead:
        """What a queued job waits for."""
        return jobs_ahead(job, subject=by, access=self.access, jobs=self.jobs)
