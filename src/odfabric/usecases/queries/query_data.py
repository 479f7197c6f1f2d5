"""Query datasets with read-only SQL, pinned to blocks.

Invariant: a query reads exactly the datasets that its text mentions and the caller may read, each up to one block that is fixed
before the engine starts. Not here: whether the SQL is admissible (the engine's gate). Source: docs/openapi.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.walk import data_slices_down
from odfabric.errors import InvalidRequest, LimitExceeded, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import QueryInput, QueryRequest, QueryResult, SliceFile
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.usecases.chain.repository import Repository

CATALOG_PAGE_ROWS = 1000
DEFAULT_LIMIT = 100

_WORD = re.compile(r"(?:[a-z0-9.-]+/)?[a-z0-9.-]*[a-z0-9]", re.ASCII)
"""What can be a dataset's name, or account and name, as long as it gets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PinnedDataset:
    """A dataset of a query: its SQL name, and the last block read (None: the head)."""

    id: DatasetId
    alias: str
    block_hash: Multihash | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryData:
    """A query.

    With `datasets` only those exist; otherwise all datasets of the node that the text mentions.
    """

    sql: str
    datasets: tuple[PinnedDataset, ...] | None = None
    skip: int = 0
    limit: int = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryLimits:
    """Limits of one query; see the settings of the same names."""

    text_bytes_max: int
    rows_max: int
    bytes_max: int
    wall_s_max: float


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """An Arrow IPC stream file in the session folder, its content and its sources."""

    path: Path
    rows: int
    data_schema: DataSchema
    inputs: tuple[PinnedDataset, ...]


def query_data(
    request: QueryData,
    folder: Path,
    *,
    repository: Repository,
    engine: Engine,
    exchange: Exchange,
    limits: QueryLimits,
    progress: ProgressListener,
) -> QueryAnswer:
    """Run the query in `folder`, a session of the exchange.

    The caller reads the answer before the session ends.

    `repository` is as the caller sees it: other datasets do not exist for the query.

    Raises InvalidQuery, LimitExceeded, InvalidRequest for skip and limit, NotFound for a dataset or block that is not here.
    """
    _check_request(request, limits)
    pinned = request.datasets
    if pinned is None:
        pinned = tuple(_mentioned(request.sql, repository))
    inputs = tuple(_query_input(number, dataset, folder, repository, exchange) for number, dataset in enumerate(pinned))
    output = folder / "answer"
    result: QueryResult = engine.query(
        QueryRequest(
            sql=request.sql,
            inputs=tuple(found for found, _ in inputs),
            skip=request.skip,
            limit=min(request.limit, limits.rows_max),
            bytes_max=limits.bytes_max,
            wall_ms_max=int(limits.wall_s_max * 1000),
            output_path=output.relative_to(exchange.root).as_posix(),
        ),
        progress=progress,
    )
    return QueryAnswer(
        path=output,
        rows=result.rows,
        data_schema=result.data_schema,
        inputs=tuple(dataset for _, dataset in inputs),
    )


def _check_request(request: QueryData, limits: QueryLimits) -> None:
    if len(request.sql.encode()) > limits.text_bytes_max:
        raise LimitExceeded("the query is too long", limit="query_text_bytes_max", maximum=limits.text_bytes_max)
    if request.skip < 0 or request.limit < 0:
        raise InvalidRequest("skip and limit must not be negative")


def _mentioned(sql: str, repository: Repository) -> Iterator[PinnedDataset]:
    """Datasets whose whole name occurs in the text, as spelled there.

    A cheap superset of those that it reads.
    """
    words = frozenset(_WORD.findall(sql.lower()))
    for entry in _entries(repository):
        name, alias = str(entry.alias.name), str(entry.alias)
        if alias.lower() in words:
            yield PinnedDataset(id=entry.id, alias=alias)
        if entry.alias.account == repository.account and name.lower() in words:
            yield PinnedDataset(id=entry.id, alias=name)


def _entries(repository: Repository) -> Iterator[CatalogEntry]:
    after: DatasetAlias | None = None
    while page := repository.catalog.page(after=after, limit=CATALOG_PAGE_ROWS):
        yield from page
        after = page[-1].alias


def _query_input(
    number: int, dataset: PinnedDataset, folder: Path, repository: Repository, exchange: Exchange
) -> tuple[QueryInput, PinnedDataset]:
    head = repository.head(repository.resolve(dataset.id).id).hash
    pin = dataset.block_hash or head
    if pin != head and not repository.chains.contains(dataset.id, pin):
        raise NotFound("block", str(pin), hint=f"it is not in the chain of {dataset.id}")
    state = repository.state(dataset.id, pin)
    slices = tuple(_slices(number, dataset.id, pin, folder, repository, exchange))
    found = QueryInput(
        alias=dataset.alias, vocabulary=state.vocabulary, data_schema=current_schema(state), slices=slices
    )
    return found, PinnedDataset(id=dataset.id, alias=dataset.alias, block_hash=pin)


def _slices(
    number: int, dataset: DatasetId, head: Multihash, folder: Path, repository: Repository, exchange: Exchange
) -> Sequence[SliceFile]:
    files = []
    for data in data_slices_down(repository.blocks(dataset), head):
        path = folder / f"{number}-{data.physical_hash}"
        repository.materialize(dataset, "data", data.physical_hash, path)
        offsets = OffsetRange.from_wire(data.offset_interval)
        files.append(SliceFile(path=path.relative_to(exchange.root).as_posix(), offsets=offsets))
    return files[::-1]
