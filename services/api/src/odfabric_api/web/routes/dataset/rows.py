"""Rows of a dataset: changelog, state as of a block, and profile.

The changelog as it was written, filtered and sorted if asked; the profile is of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from odfabric.errors import InvalidQuery, InvalidRequest, LimitExceeded, NotFound
from odfabric.formats.identifiers.moments import parse_event_moment, parse_system_moment
from odfabric.model.commit import CatalogEntry
from odfabric.model.moment import SystemMoment
from odfabric.ports.engine import ProgressListener
from odfabric.usecases.datasets.describe_dataset import Column, DatasetDescription
from odfabric.usecases.queries.row_query import COMPARED, RowFilter, RowOrder, profile_query, rows_query
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.usecases.state.read_state import ReadState
from odfabric_api.auth import Caller, ReadableDataset, Subject, node_of, querying
from odfabric_api.capacity import Capacity, while_client_waits
from odfabric_api.page_route import PageRoute
from odfabric_api.web.asking import ask
from odfabric_api.web.charts import draw_spread
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.pages import page

router = APIRouter(route_class=PageRoute, include_in_schema=False)

PAGE_ROWS = 50
COLUMNS_SHOWN = 40
STATE_CELLS_AT_ONCE_MAX = 500_000
"""Values of a changelog whose state is read while the reader waits; a larger one follows the page."""
PROFILED_MAX = 100
"""Columns of one profile."""
_Found = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moment:
    """Which state: as at a block (hash, number or time), as of an event time."""

    block: Annotated[str, Query(max_length=200, description="State as at this block; default: the head")] = ""
    at: Annotated[str, Query(max_length=200, description="State as at this time or block")] = ""
    number: Annotated[int | None, Query(ge=0, description="State as at the block of this number")] = None
    held: Annotated[str, Query(max_length=100, description="State as of this event time")] = ""


_NOTHING: _Found = {
    "names": [],
    "rows": [],
    "total": 0,
    "operation_at": None,
    "offsets": None,
    "as_of": None,
    "has_more_columns": False,
    "sql": None,
    "refusal": None,
    "waiting": False,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A query for records after the first `skip`, of columns from number `first`."""

    sql: str
    skip: int
    first: int
    listener: ProgressListener


@router.get("/{account}/{dataset}/-/rows")
async def get_rows(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    moment: Annotated[_Moment, Depends()],
    view: Annotated[Literal["changelog", "state"], Query()] = "changelog",
    skip: Annotated[int, Query(ge=0)] = 0,
    columns: Annotated[int, Query(ge=0, description="Columns left out")] = 0,
    column: Annotated[str, Query(max_length=300, description="Column of the filter")] = "",
    operator: Annotated[str, Query(max_length=10)] = "=",
    value: Annotated[str, Query(max_length=1000)] = "",
    sort: Annotated[str, Query(max_length=300, description="Column by which the rows are sorted")] = "",
    down: Annotated[bool, Query(description="Greatest first")] = False,
    wait: Annotated[bool, Query(description="Answer when the engine has answered, not before")] = False,
) -> Response:
    """A page of rows.

    The changelog comes newest first, unless it is filtered or sorted, which the engine does; the state, at a moment, in order of key.

    What the engine does follows in a second request with `wait`: a page never keeps its reader waiting for the engine.
    """
    asked = {**asdict(moment), "view": view, "skip": skip, "column": column, "operator": operator, "value": value}
    asked |= {"sort": sort, "down": down, "limit": PAGE_ROWS}
    is_asked_for = view == "changelog" and bool(column or sort)

    def find(about: DatasetDescription, listener: ProgressListener) -> _Found:
        if view == "state":
            if not wait and about.rows * len(about.columns) > STATE_CELLS_AT_ONCE_MAX:
                return {"waiting": True}
            return _state(request, entry, about, moment, skip=skip, first=columns)
        if not is_asked_for:
            return _changelog(request, entry, about, skip=skip, first=columns)
        filter_ = RowFilter(column, _type_of(about, column), operator, value) if column else None
        if operator not in COMPARED:
            raise InvalidRequest(f"unknown operator {operator!r}", hint=f"one of {', '.join(COMPARED)}")
        order = RowOrder(sort, down) if sort and _type_of(about, sort) else None
        if not wait:
            return {"waiting": True}
        sql = rows_query(str(entry.alias), filter_, order)
        return _filtered(request, caller, about, _Asked(sql=sql, skip=skip, first=columns, listener=listener))

    def values(about: DatasetDescription, listener: ProgressListener) -> _Found:
        shown = dict(_NOTHING)
        try:
            shown |= find(about, listener)
        except (InvalidQuery, InvalidRequest, LimitExceeded, NotFound) as error:
            shown["refusal"] = error
        return {**asked, **shown, "first_column": columns, "columns_shown": COLUMNS_SHOWN, "operators": COMPARED}

    is_query = (is_asked_for and wait) or view == "state"
    return await _answered(request, entry, caller, "rows.html", values, is_query=is_query)


@router.get("/{account}/{dataset}/-/profile")
async def get_profile(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    exact: Annotated[bool, Query(description="Answer when all records were read, not before")] = False,
    first: Annotated[int, Query(ge=0, description="Columns left out")] = 0,
) -> Response:
    """For each column: how many records are null, the least, the greatest.

    As the files say; when `exact`, computed over all records, and about how many differ.
    """

    def values(about: DatasetDescription, listener: ProgressListener) -> _Found:
        columns = about.columns[first : first + PROFILED_MAX]
        shown: _Found = {"columns": columns, "exact": exact, "first": first, "profiled_max": PROFILED_MAX}
        shown |= {"profile": [], "refusal": None, "statistics": None, "records": 0, "seconds": 0.0}
        if not columns or not about.rows:
            return shown
        if not exact:
            names = [each.name for each in columns]
            return {**shown, "statistics": node_of(request).browsing.profile(entry, names, by=caller)}
        try:
            return {**shown, **_exact_profile(request, entry, caller, columns, listener)}
        except (InvalidQuery, LimitExceeded) as error:
            return {**shown, "refusal": error}

    return await _answered(request, entry, caller, "profile.html", values, is_query=exact)


def _exact_profile(
    request: Request, entry: CatalogEntry, caller: Subject, columns: Sequence[Column], listener: ProgressListener
) -> _Found:
    asked = [(each.name, each.type) for each in columns]
    answer = ask(request, caller, profile_query(str(entry.alias), asked), limit=1, listener=listener)
    found = dict(zip(answer["names"], answer["rows"][0], strict=True))
    profile = [_profiled(each, position, found) for position, each in enumerate(columns)]
    return {"profile": profile, "records": found["records"], "seconds": answer["seconds"]}


async def _answered(
    request: Request,
    entry: CatalogEntry,
    caller: Subject,
    template: str,
    values: Callable[[DatasetDescription, ProgressListener], _Found],
    *,
    is_query: bool,
) -> Response:
    """The page, made in a thread.

    One that takes as much work as a query has a place among those while its reader waits.
    """
    capacity: Capacity = request.app.state.capacity

    def render(listener: ProgressListener = lambda _: None) -> Response:
        frame = dataset_frame(request, entry, caller)
        return page(request, template, {**frame, **values(frame["about"], listener), "tab": "rows"})

    if not is_query:
        # Slots and threads of queries may all wait for the engine.
        return await to_thread.run_sync(render)
    with querying(request, caller):
        async with while_client_waits(request) as listener:
            return await capacity.run_query(lambda: render(listener))


def _profiled(column: Column, position: int, found: _Found) -> _Found:
    parts = ("nulls", "distinct", "min", "max")
    spread = draw_spread(found.get(f"spread_{position}"))
    return {"column": column, "spread": spread, **{part: found.get(f"{part}_{position}") for part in parts}}


def _type_of(about: DatasetDescription, column: str) -> str:
    found = next((each.type for each in about.columns if each.name == column), None)
    if found is None:
        raise InvalidRequest(f"there is no column {column!r}", hint="choose one of the dataset's columns")
    return found


def _changelog(request: Request, entry: CatalogEntry, about: DatasetDescription, *, skip: int, first: int) -> _Found:
    """Of the columns from number `first` on; the others are not read."""
    names = [each.name for each in about.columns]
    shown = frozenset(names[first : first + COLUMNS_SHOWN])
    asked = ReadTail(skip=skip, limit=PAGE_ROWS, data_format="JsonAoA", schema_format=None, columns=shown)
    rows = node_of(request).rows.tail(entry, asked)["data"]
    assert isinstance(rows, list)
    newest = about.rows - 1 - skip
    offsets = list(range(newest, newest - len(rows), -1))
    return {**_columns(about, names, first), "rows": rows[::-1], "total": about.rows, "offsets": offsets}


def _filtered(request: Request, caller: Subject, about: DatasetDescription, asked: _Asked) -> _Found:
    answer = ask(request, caller, asked.sql, skip=asked.skip, limit=PAGE_ROWS + 1, listener=asked.listener)
    rows = answer["rows"]
    offset_at = answer["names"].index(about.state.vocabulary.offset)
    return {
        **_columns(about, answer["names"], asked.first),
        "offsets": [row[offset_at] for row in rows[:PAGE_ROWS]],
        "rows": _cut(rows[:PAGE_ROWS], asked.first),
        # How many there are in all is not counted: that would read everything for each page.
        "total": asked.skip + len(rows),
        "sql": asked.sql,
    }


def _columns(about: DatasetDescription, names: list[str], first: int) -> _Found:
    """The shown columns, which of them has operations, and whether there are more."""
    shown = names[first : first + COLUMNS_SHOWN]
    operation = about.state.vocabulary.operation_type
    operation_at = shown.index(operation) if operation in shown else None
    return {"names": shown, "operation_at": operation_at, "has_more_columns": len(names) > first + COLUMNS_SHOWN}


def _cut(rows: list[list[Any]], first: int) -> list[list[Any]]:
    return [row[first : first + COLUMNS_SHOWN] for row in rows]


def _state(
    request: Request, entry: CatalogEntry, about: DatasetDescription, moment: _Moment, *, skip: int, first: int
) -> _Found:
    rows = node_of(request).rows
    as_at: SystemMoment | None = None
    if written := moment.block or moment.at.strip():
        as_at = parse_system_moment(written, field="at")
    elif moment.number is not None:
        as_at = rows.block_numbered(entry, moment.number)
    asked = ReadState(
        as_at=as_at,
        as_of=parse_event_moment(moment.held.strip(), field="held") if moment.held.strip() else None,
        skip=skip,
        limit=PAGE_ROWS,
        data_format="JsonAoA",
        schema_format="OdfJson",
    )
    answer: _Found = rows.state(entry, asked)
    return {
        **_columns(about, [field["name"] for field in answer["schema"]["fields"]], first),
        "rows": _cut(answer["data"], first),
        "total": answer["rows"],
        "as_of": {
            "block": answer["block"],
            "sequence": answer["sequenceNumber"],
            "time": answer["systemTime"],
            "held": answer.get("asOf"),
        },
    }
