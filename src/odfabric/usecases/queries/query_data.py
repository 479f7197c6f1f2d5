"""Query datasets with read-only SQL, pinned to blocks.

Invariant: a query reads exactly the datasets that its text mentions and the caller may read, each up to one block that is fixed
before the engine starts. Not here: whether the SQL is admissible (the engine's gate). Source: docs/openapi.json.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from odfabric.errors import InvalidQuery, InvalidRequest, LimitExceeded, NotFound, Place
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.commit import CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import QueryRequest, QueryResult
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.instant import Instant
from odfabric.model.moment import SystemMoment
from odfabric.model.multihash import Multihash
from odfabric.model.table_function import CallRefusal, TableCall
from odfabric.ports.engine import Engine, ProgressListener
from odfabric.usecases.chain.moments import block_at
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.queries.first_rows import first_rows
from odfabric.usecases.queries.later_names import explain_later_names
from odfabric.usecases.queries.query_tables import NamedTable, QueryTables, names_records, table_of
from odfabric.usecases.queries.table_functions import (
    Calling,
    CallTable,
    Explain,
    Find,
    ReadSlices,
    calls_of,
    is_why,
    resolved,
    without_calls,
)
from odfabric.usecases.state.time_travel import TravelPorts

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

    With `datasets` only those exist; otherwise all datasets of the node that the text mentions. `as_at`: those without a block are read
    as known then; `as_of`: a dataset is the rows of it that held then, not its records.
    """

    sql: str
    datasets: tuple[PinnedDataset, ...] | None = None
    as_at: SystemMoment | None = None
    as_of: Instant | None = None
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
class CalledDataset:
    """A call of a table function, its dataset, and the last block that it read."""

    call: TableCall
    dataset: PinnedDataset


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAnswer:
    """An Arrow IPC stream file in the session folder, its content and its sources."""

    path: Path
    rows: int
    data_schema: DataSchema
    inputs: tuple[PinnedDataset, ...]
    calls: tuple[CalledDataset, ...] = ()


def query_data(
    request: QueryData,
    folder: Path,
    *,
    travel: TravelPorts,
    engine: Engine,
    explaining: Callable[[int], Explain],
    limits: QueryLimits,
    progress: ProgressListener,
) -> QueryAnswer:
    """Run the query in `folder`, a session of the exchange.

    The caller reads the answer before the session ends.

    The repository of `travel` is as the caller sees it: other datasets do not exist for the query. `explaining` answers so many
    calls of `why`, which together take no longer than one.

    Raises InvalidQuery, LimitExceeded, InvalidRequest for skip and limit, NotFound for a dataset or block that is not here.
    """
    _check_request(request, limits)
    repository = travel.repository
    pinned, absent = _pinned(request, repository)
    calls = calls_of(request.sql)
    find = partial(_find, pinned=pinned if request.datasets is not None else None, asked=request, repository=repository)
    calling = Calling(
        repository=repository,
        find=find,
        as_of=request.as_of,
        explain=explaining(sum(map(is_why, calls))),
    )
    found = {call: resolved(call, calling) for call in calls}
    _check_block_of_one(request, _read_as_known_then(request, pinned, found))
    named = [NamedTable(each.alias, table_of(each.id, each.block_hash, request.as_of, repository)) for each in pinned]
    called = [NamedTable("", what, call) for call, what in found.items()]
    tables = QueryTables(
        travel,
        folder,
        tuple(named + called),
        rows_suffice=not names_records(request.sql),
        first=first_rows(request.sql, request.skip + min(request.limit, limits.rows_max)),
    )
    output = folder / "answer"
    asked = QueryRequest(
        sql=request.sql,
        inputs=tables.inputs(),
        skip=request.skip,
        limit=min(request.limit, limits.rows_max),
        bytes_max=limits.bytes_max,
        wall_ms_max=int(limits.wall_s_max * 1000),
        output_path=output.relative_to(travel.exchange.root).as_posix(),
    )
    try:
        result = _run(asked, tables, engine, progress)
    except InvalidQuery as error:
        explain_later_names(
            error, absent, [each.what for each in named + called if isinstance(each.what, ReadSlices)], repository
        )
        raise
    return QueryAnswer(
        path=output,
        rows=result.rows,
        data_schema=result.data_schema,
        inputs=pinned + tuple(_named_by(found, find, pinned)),
        calls=tuple(_read_by(call, what) for call, what in found.items() if not isinstance(what, CallRefusal)),
    )


def _run(request: QueryRequest, tables: QueryTables, engine: Engine, progress: ProgressListener) -> QueryResult:
    """The result over rows if they suffice for the query, else over records."""
    result = engine.query(request, progress=progress)
    if not result.wants_records:
        return result
    again = replace(request, inputs=tables.inputs(with_records=frozenset(result.wants_records)))
    return engine.query(again, progress=progress)


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


def _pinned(request: QueryData, repository: Repository) -> tuple[tuple[PinnedDataset, ...], Mapping[str, str]]:
    """The datasets of a query, each with the block up to which it is read.

    With them those that came later, by their names in small letters, and what to write instead.
    """
    if request.datasets is not None:
        return tuple(_at(each, request.as_at, repository) for each in request.datasets), {}
    named = list(_mentioned(without_calls(request.sql), repository))
    _check_block_of_one(request, {each.id for each in named})
    found, absent = [], {}
    for each in named:
        try:
            found.append(_at(each, request.as_at, repository))
        except NotFound as error:
            # What came later was not there; a block that is of no such dataset is a mistake.
            if not isinstance(request.as_at, Instant):
                raise
            absent[each.alias.lower()] = error.hint or ""
    return tuple(found), absent


def _read_as_known_then(
    request: QueryData, pinned: tuple[PinnedDataset, ...], found: Mapping[TableCall, CallTable | CallRefusal]
) -> set[DatasetId]:
    """The datasets for which the query names no block: tables, and those of calls."""
    if request.datasets is not None:
        return {each.id for each in request.datasets if each.block_hash is None}
    called = {what.entry.id for what in found.values() if not isinstance(what, CallRefusal)}
    return called | {each.id for each in pinned}


def _check_block_of_one(request: QueryData, datasets: set[DatasetId]) -> None:
    """A block of one dataset says nothing of others. Raises InvalidRequest."""
    if len(datasets) > 1 and isinstance(request.as_at, Multihash | int):
        raise InvalidRequest(
            "a block is one of one dataset, and the query reads several",
            place=Place(field="asAt"),
            hint="give a time, or name a block of each: as_at('account/dataset', 'f1620..') in FROM, "
            "or datasets: [{id, alias, blockHash}] of POST /query",
        )


def _at(dataset: PinnedDataset, moment: SystemMoment | None, repository: Repository) -> PinnedDataset:
    wanted = moment if dataset.block_hash is None else dataset.block_hash
    block = block_at(repository.resolve(dataset.id), wanted, repository=repository)
    return PinnedDataset(id=dataset.id, alias=dataset.alias, block_hash=block.hash)


def _find(
    name: str, *, pinned: tuple[PinnedDataset, ...] | None, asked: QueryData, repository: Repository
) -> tuple[CatalogEntry, Multihash]:
    """The dataset that a call names, and the last block up to which it may be read."""
    if pinned is not None:
        known = next((each for each in pinned if each.alias == name), None)
        if known is None or known.block_hash is None:
            raise NotFound("dataset", name, hint="the query has only the datasets that it lists")
        return repository.resolve(known.id), known.block_hash
    entry = repository.resolve(parse_dataset_ref(name))
    return entry, block_at(entry, asked.as_at, repository=repository).hash


def _named_by(
    found: Mapping[TableCall, CallTable | CallRefusal], find: Find, pinned: tuple[PinnedDataset, ...]
) -> Iterator[PinnedDataset]:
    """Datasets that only calls name, with the last block up to which they may be read.

    With them among its `datasets` the query gives the same answer again.
    """
    known = {each.alias for each in pinned}
    for call, what in found.items():
        alias = call.arguments[0]
        if not isinstance(what, CallRefusal) and alias not in known:
            known.add(alias)
            yield PinnedDataset(id=what.entry.id, alias=alias, block_hash=find(alias)[1])


def _read_by(call: TableCall, what: CallTable) -> CalledDataset:
    dataset = PinnedDataset(id=what.entry.id, alias=call.arguments[0], block_hash=what.block.hash)
    return CalledDataset(call=call, dataset=dataset)
