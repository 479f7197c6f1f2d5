"""Maintain current-state indexes along their chains.

Bring them forward, give up those that no longer fit, hold one against its chain.

Invariant: an index is only a faster way to what the chain says. Nobody waits for one, whatever is wrong with it is put right by making
it again, and it takes in a block only if all that it took in before is in the same chain. Not here: what reads it (`ingest`,
`read_state`). Source: ADR 0015; ADR 0017.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.state_index import IndexPace, NoIndex, index_definition, is_due
from odfabric.errors import Corrupt, Determinate, OdfError
from odfabric.formats.jobs.index_request import read_index_request, write_index_request
from odfabric.model.engine import EngineProgress
from odfabric.model.identity import DatasetId
from odfabric.model.jobs.job import Job, JobKind, NewJob
from odfabric.model.jobs.requests import IndexRequest
from odfabric.model.metadata import AddData, DataSlice, ExecuteTransform
from odfabric.model.offsets import OffsetRange
from odfabric.model.state_index import IndexDefinition, IndexedSlice, IndexFrontier
from odfabric.ports.datasets.state_index import StateIndex
from odfabric.ports.jobs.jobs import Jobs
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.jobs.job_run import LeasedRun

_log = logging.getLogger(__name__)

DATA_EVENTS = frozenset({AddData.__name__, ExecuteTransform.__name__})

Report = Callable[[EngineProgress], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexWork:
    """Pace of an index, and the most blocks and rows that are taken in at once."""

    pace: IndexPace
    page_blocks_max: int
    page_rows_max: int


def enqueue_index(
    dataset: DatasetId,
    *,
    account: str,
    repository: Repository,
    index: StateIndex,
    jobs: Jobs,
    clock: Clock,
    entropy: Entropy,
    pace: IndexPace,
) -> Job | None:
    """Queue the work on a dataset's index if it is worth it, None otherwise.

    Never raises for what is wrong with the index.

    The job names no dataset: pushes do not wait for it. Indexes of a dataset that is gone are dropped at once, or by the job if that fails.
    """
    gone = False
    try:
        gone = repository.find(dataset) is None
        if gone:
            index.drop(dataset)
        if gone or not _worth_it(dataset, repository=repository, index=index, pace=pace):
            return None
    except OdfError as error:
        _log.warning("the index of %s was not looked at: %s", dataset, error)
        if not gone:
            return None
    except Exception:  # noqa: BLE001  # a bug in what only makes merges faster must not stop the relay
        _log.exception("the index of %s was not looked at", dataset)
        return None
    new = NewJob(
        id=entropy.random_bytes(16).hex(),
        kind=JobKind.INDEX,
        account=account,
        dataset_id=None,
        request=write_index_request(IndexRequest(dataset)),
        dedup_key=f"index/{dataset}",
    )
    return jobs.enqueue(new, now=clock.now())


def run_index(
    job: Job, run: LeasedRun, *, repository: Repository, index: StateIndex | None, work: IndexWork
) -> Mapping[str, object]:
    """Bring the index of a job's dataset to the head.

    Raises Corrupt for a damaged chain or slice, Determinate, Indeterminate.
    """
    dataset = read_index_request(job).dataset
    if index is None:
        return {"dataset": str(dataset), "upper": None}
    frontier = bring_forward(dataset, repository=repository, index=index, work=work, report=run.report)
    return {"dataset": str(dataset), "upper": None if frontier is None else frontier.upper}


def bring_forward(
    dataset: DatasetId, *, repository: Repository, index: StateIndex, work: IndexWork, report: Report
) -> IndexFrontier | None:
    """The frontier of the index once it has all data blocks up to the head.

    None if the dataset has no index (any more).

    Any number of workers may do so at once. An index of another epoch or of another chain, or a damaged one, is dropped first.
    """
    if repository.find(dataset) is None:
        index.drop(dataset)
        return None
    _, state = repository.current(dataset)
    definition = index_definition(state)
    if isinstance(definition, NoIndex):
        index.drop(dataset)
        return None
    if index.frontier(definition) is None:
        index.drop(dataset, but=definition)
    try:
        frontier = _extended(definition, state, repository=repository, index=index, work=work, report=report)
    except Corrupt as error:
        # Either the index is damaged, which making it again heals, or a slice is, and then it comes up again.
        _log.warning("the index of %s is made again: %s", dataset, error)
        index.drop(dataset)
        frontier = _extended(definition, state, repository=repository, index=index, work=work, report=report)
    if repository.find(dataset) is None:
        index.drop(dataset)  # deleted meanwhile: nobody would drop what we have made
        return None
    return frontier


def usable_frontier(definition: IndexDefinition, *, repository: Repository, index: StateIndex) -> IndexFrontier | None:
    """How far an index is; None without one that belongs to the present chain."""
    frontier = index.frontier(definition)
    if frontier is None or frontier.block_hash is None:
        return None
    return frontier if repository.chains.contains(definition.dataset, frontier.block_hash) else None


def _worth_it(dataset: DatasetId, *, repository: Repository, index: StateIndex, pace: IndexPace) -> bool:
    _, state = repository.current(dataset)
    definition = index_definition(state)
    if isinstance(definition, NoIndex):
        return False
    return is_due(state, index.frontier(definition), pace)


def _extended(
    definition: IndexDefinition,
    state: ChainState,
    *,
    repository: Repository,
    index: StateIndex,
    work: IndexWork,
    report: Report,
) -> IndexFrontier | None:
    frontier = index.frontier(definition)
    if frontier is not None and usable_frontier(definition, repository=repository, index=index) is None:
        _log.warning("the index of %s is of a chain that is no more", definition.dataset)
        index.drop(definition.dataset)
        frontier = None
    last = state.last_data
    end = 0 if last is None else last.sequence_number + 1
    upper = 0 if frontier is None else frontier.upper
    while upper < end and (frontier is None or frontier.violation is None):
        report(EngineProgress(stage="index", done=upper, total=end))
        page = _page(definition, upper, end, repository=repository, work=work)
        frontier = index.extend(definition, page)
        upper = max(frontier.upper, page[-1].sequence_number + 1)
        since = max(0, frontier.upper - 1 - work.pace.history_blocks)
        frontier = index.maintain(definition, since=since)
        if frontier is None:
            raise Determinate(f"the index of {definition.dataset} was dropped meanwhile", hint="do it again")
    return frontier


def _page(
    definition: IndexDefinition, start: int, end: int, *, repository: Repository, work: IndexWork
) -> list[IndexedSlice]:
    """The next data blocks, oldest first; at least one, if there is one before `end`."""
    while start < end:
        stop = min(start + work.page_blocks_max, end)
        found = list(_slices(definition.dataset, start, stop, repository=repository))[::-1]
        if found:
            return list(_within(found, work.page_rows_max))
        start = stop
    raise Corrupt("the chain has fewer data blocks than its head says", object_name=str(definition.dataset))


def _within(slices: list[IndexedSlice], rows_max: int) -> Iterator[IndexedSlice]:
    rows = 0
    for one in slices:
        rows += len(one.offsets)
        if rows > rows_max and rows > len(one.offsets):
            return
        yield one


def _slices(dataset: DatasetId, start: int, stop: int, *, repository: Repository) -> Iterator[IndexedSlice]:
    """Slices of data blocks with start <= number < stop, newest first."""
    blocks = repository.blocks(dataset)
    for row in repository.chains.rows_down(dataset, from_sequence=stop - 1, event_types=DATA_EVENTS):
        if row.sequence_number < start:
            return
        match blocks.get(row.hash).event:
            case AddData(new_data=DataSlice() as data) | ExecuteTransform(new_data=DataSlice() as data):
                yield IndexedSlice(
                    sequence_number=row.sequence_number,
                    block_hash=row.hash,
                    physical_hash=data.physical_hash,
                    offsets=OffsetRange.from_wire(data.offset_interval),
                )
            case _:
                pass
