"""The route of a dataset's state: its net rows at a moment."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.moment import SystemMoment
from odfabric.usecases.state.read_state import ReadState
from odfabric_api.auth import Caller, ReadableDataset, node_of, querying
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.moments import AS_AT, AS_OF, event_moment_of, system_moment_of
from odfabric_api.bodies.row_formats import DATA_FORMAT, SCHEMA_FORMAT
from odfabric_api.bodies.schemas import StateAnswer, answers
from odfabric_api.capacity import Capacity

router = APIRouter(tags=["data"])


@router.get(
    "/{account}/{dataset}/state",
    summary="The rows at a moment",
    responses=answers(StateAnswer, text="The rows, and the block that they are after"),
)
async def state(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    as_at: Annotated[str | None, AS_AT] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    as_of_block: Annotated[
        str | None, Query(alias="asOfBlock", max_length=200, description="Hash of a block: the same as asAt with it")
    ] = None,
    skip: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=0)] = 100,
    data_format: Annotated[str, DATA_FORMAT] = "JsonAoS",
    schema_format: Annotated[str | None, SCHEMA_FORMAT] = None,
) -> Response:
    """Net rows in order of key, without offset, op and system time.

    What appends, retractions and corrections leave: as known then (`asAt`), as held then (`asOf`), or both. Columns are those of the block.

    `source` says whether the current-state index reported them or a replay of the chain; the rows are the same.
    """
    asked = ReadState(
        as_at=_moment(as_at, as_of_block),
        as_of=event_moment_of(as_of),
        skip=skip,
        limit=limit,
        data_format=data_format,
        schema_format=schema_format,
    )
    capacity: Capacity = request.app.state.capacity
    # A replay is as much work as a query, so it has a place among those.
    with querying(request, caller):
        return await capacity.run_query(lambda: JsonAnswer(node_of(request).rows.state(entry, asked)))


def _moment(as_at: str | None, as_of_block: str | None) -> SystemMoment | None:
    if as_of_block is None:
        return system_moment_of(as_at)
    if as_at is not None:
        raise InvalidRequest(
            "asAt and asOfBlock say the same thing twice", place=Place(field="asAt"), hint="leave out one"
        )
    return parse_multihash(as_of_block)
