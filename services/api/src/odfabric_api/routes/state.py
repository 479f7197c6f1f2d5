"""The route of a dataset's state: its net rows as of a block or a time."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.usecases.state.read_state import ReadState
from odfabric_api.auth import Caller, ReadableDataset, node_of, querying
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.schemas import StateAnswer, answers
from odfabric_api.capacity import Capacity
from odfabric_api.preconditions import instant_of

router = APIRouter(tags=["data"])


@router.get(
    "/{account}/{dataset}/state",
    summary="The rows as of a block or a time",
    responses=answers(StateAnswer, text="The rows, and the block that they are after"),
)
async def state(
    request: Request,
    entry: ReadableDataset,
    caller: Caller,
    as_at: Annotated[
        str | None,
        Query(alias="asAt", max_length=100, description="RFC 3339 time: after the last block at or before it"),
    ] = None,
    as_of_block: Annotated[
        str | None, Query(alias="asOfBlock", max_length=200, description="Hash of a block; default: the head")
    ] = None,
    skip: Annotated[int, Query(ge=0)] = 0,
    limit: Annotated[int, Query(ge=0)] = 100,
    data_format: Annotated[str, Query(alias="dataFormat", description="JsonAoS, JsonSoA or JsonAoA")] = "JsonAoS",
    schema_format: Annotated[
        str | None,
        Query(
            alias="schemaFormat", description="ArrowJson, OdfJson, OdfYaml, Parquet or ParquetJson; asks for the schema"
        ),
    ] = None,
) -> Response:
    """Net rows in order of key, without offset, op and system time.

    What appends, retractions and corrections leave.

    `source` says whether the current-state index reported them or a replay of the chain; the rows are the same.
    """
    asked = ReadState(
        as_at=None if as_at is None else instant_of("asAt", as_at),
        as_of_block=None if as_of_block is None else parse_multihash(as_of_block),
        skip=skip,
        limit=limit,
        data_format=data_format,
        schema_format=schema_format,
    )
    capacity: Capacity = request.app.state.capacity
    # A replay is as much work as a query, so it has a place among those.
    with querying(request, caller):
        return await capacity.run_query(lambda: JsonAnswer(node_of(request).rows.state(entry, asked)))
