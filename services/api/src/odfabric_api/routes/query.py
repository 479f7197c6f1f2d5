"""The query route: read-only SQL over datasets of the node."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.usecases.queries.query_data import PinnedDataset, QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric_api.auth import Anybody, Subject, node_of, querying
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, parse_model, read_json
from odfabric_api.bodies.moments import AS_AT, AS_OF, event_moment_of, system_moment_of
from odfabric_api.bodies.schemas import QueryAnswer, answers
from odfabric_api.capacity import Capacity, while_client_waits

router = APIRouter(tags=["query"])

INT64_MAX = 2**63 - 1
QUERY_DATASETS_MAX = 100

Dialect = Literal["SqlDataFusion", "SqlSpark", "SqlFlink", "SqlRisingWave"]


class QueryDatasetBody(JsonModel):
    """A dataset that the SQL sees under `alias`, up to `blockHash`."""

    id: str = Field(max_length=200)
    alias: str = Field(min_length=1, max_length=201)
    block_hash: str | None = Field(None, alias="blockHash", max_length=200)


class QueryBody(JsonModel):
    """A query.

    All dialects that the reference names are accepted as names; the engine's is Spark SQL.
    """

    query: str
    query_dialect: Dialect = Field("SqlSpark", alias="queryDialect")
    data_format: str = Field("JsonAoS", alias="dataFormat", description="JsonAoS, JsonSoA or JsonAoA")
    include: list[str] = Field(default_factory=list, max_length=10, description="Input, Schema")
    schema_format: str | None = Field(
        None,
        alias="schemaFormat",
        description="ArrowJson, OdfJson, OdfYaml, Parquet or ParquetJson; asks for the schema",
    )
    datasets: list[QueryDatasetBody] | None = Field(
        None, max_length=QUERY_DATASETS_MAX, description="Only these exist; null: all that the text mentions"
    )
    as_at: str | None = Field(
        None,
        alias="asAt",
        max_length=200,
        description="Datasets without a block are read as known then: an RFC 3339 time, or a block's number or hash if there is one dataset",
    )
    as_of: str | None = Field(
        None,
        alias="asOf",
        max_length=100,
        description="RFC 3339 time: a dataset is the rows that held then, in the place of its records",
    )
    skip: int = Field(0, ge=0, le=INT64_MAX)
    limit: int = Field(100, ge=0, le=INT64_MAX)


@router.post(
    "/query",
    summary="Query with SQL",
    responses=answers(QueryAnswer, text="The rows"),
    openapi_extra=json_body(QueryBody, required=True),
)
async def post_query(request: Request, caller: Anybody) -> Response:
    """`{output: {data, dataFormat, schema?, schemaFormat?}, input?}`; no proofs yet.

    `input` names the block up to which each dataset was read; with its `datasets` the query gives the same answer again.
    """
    bytes_max = node_of(request).settings.query_body_bytes_max
    body = await read_json(request, QueryBody, bytes_max=bytes_max, limit="query_body_bytes_max")
    return await _answer(request, caller, body)


@router.get("/query", summary="Query with SQL, in the address", responses=answers(QueryAnswer, text="The rows"))
async def get_query(
    request: Request,
    caller: Anybody,
    query: str,
    query_dialect: Annotated[str, Query(alias="queryDialect")] = "SqlSpark",
    data_format: Annotated[str | None, Query(alias="dataFormat")] = None,
    short_format: Annotated[str | None, Query(alias="format", description="The same as dataFormat")] = None,
    include: Annotated[str, Query(description="Comma list of Input, Schema")] = "",
    schema_format: Annotated[str | None, Query(alias="schemaFormat")] = None,
    as_at: Annotated[str | None, AS_AT] = None,
    as_of: Annotated[str | None, AS_OF] = None,
    skip: Annotated[int, Query(ge=0, le=INT64_MAX)] = 0,
    limit: Annotated[int, Query(ge=0, le=INT64_MAX)] = 100,
) -> Response:
    """Like POST."""
    value = {
        "query": query,
        "queryDialect": query_dialect,
        "dataFormat": data_format or short_format or "JsonAoS",
        "include": [part.strip() for part in include.split(",") if part.strip()],
        "schemaFormat": schema_format,
        "asAt": as_at,
        "asOf": as_of,
        "skip": skip,
        "limit": limit,
    }
    return await _answer(request, caller, parse_model(value, QueryBody))


async def _answer(request: Request, caller: Subject, body: QueryBody) -> Response:
    capacity: Capacity = request.app.state.capacity
    asked = QueryData(
        sql=body.query,
        datasets=_pinned(body.datasets),
        as_at=system_moment_of(body.as_at),
        as_of=event_moment_of(body.as_of),
        skip=body.skip,
        limit=body.limit,
    )
    form = QueryForm(
        data_format=body.data_format,
        include=tuple(body.include),
        schema_format=body.schema_format,
        dialect=body.query_dialect,
    )
    with querying(request, caller):
        async with while_client_waits(request) as listener:
            # The text of the answer is made in the thread, too: it may be large.
            return await capacity.run_query(
                lambda: JsonAnswer(node_of(request).rows.query_document(asked, form, listener, by=caller))
            )


def _pinned(datasets: list[QueryDatasetBody] | None) -> tuple[PinnedDataset, ...] | None:
    if datasets is None:
        return None
    return tuple(
        PinnedDataset(
            id=parse_dataset_id(entry.id),
            alias=entry.alias,
            block_hash=parse_multihash(entry.block_hash) if entry.block_hash is not None else None,
        )
        for entry in datasets
    )
