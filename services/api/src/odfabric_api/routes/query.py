"""The query route: read-only SQL over datasets of the node."""

from __future__ import annotations

from typing import Literal

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field
from starlette.responses import JSONResponse

from odfabric.domain.access import Action
from odfabric.formats.did import parse_dataset_id
from odfabric.formats.multihash import parse_multihash
from odfabric.usecases.query_data import PinnedDataset, QueryData
from odfabric.usecases.query_document import QueryForm
from odfabric_api.auth import node_of, require_account
from odfabric_api.json_body import JsonModel, parse_model, read_json

router = APIRouter(tags=["query"])


class QueryDatasetBody(JsonModel):
    """A dataset that the SQL sees under `alias`, up to `blockHash`."""

    id: str
    alias: str
    block_hash: str | None = Field(None, alias="blockHash")


class QueryBody(JsonModel):
    """A query. All dialects that the reference names are accepted as names; the engine's is Spark SQL."""

    query: str
    query_dialect: Literal["SqlDataFusion", "SqlSpark", "SqlFlink", "SqlRisingWave"] = Field(
        "SqlSpark", alias="queryDialect"
    )
    data_format: str = Field("JsonAoS", alias="dataFormat")
    include: list[str] = Field(default_factory=list)
    schema_format: str | None = Field(None, alias="schemaFormat")
    datasets: list[QueryDatasetBody] | None = None
    skip: int = 0
    limit: int = 100


@router.post("/query", summary="Query with SQL")
async def post_query(request: Request) -> Response:
    """`{output: {data, dataFormat, schema?, schemaFormat?}, input?}`; proofs are not made yet."""
    node = node_of(request)
    bytes_max = node.settings.json_body_bytes_max + node.settings.query_text_bytes_max
    body = await read_json(request, QueryBody, bytes_max=bytes_max)
    return await to_thread.run_sync(_answer, request, body)


@router.get("/query", summary="Query with SQL, in the address")
def get_query(
    request: Request,
    query: str,
    queryDialect: str = "SqlSpark",
    dataFormat: str | None = None,
    format: str | None = None,
    include: str = "",
    schemaFormat: str | None = None,
    skip: int = 0,
    limit: int = 100,
) -> Response:
    """Like POST; `include` is a comma list."""
    value = {
        "query": query,
        "queryDialect": queryDialect,
        "dataFormat": dataFormat or format or "JsonAoS",
        "include": [part.strip() for part in include.split(",") if part.strip()],
        "schemaFormat": schemaFormat,
        "skip": skip,
        "limit": limit,
    }
    return _answer(request, parse_model(value, QueryBody))


def _answer(request: Request, body: QueryBody) -> Response:
    require_account(request, Action.READ)
    datasets = None
    if body.datasets is not None:
        datasets = tuple(
            PinnedDataset(
                id=parse_dataset_id(entry.id),
                alias=entry.alias,
                block_hash=parse_multihash(entry.block_hash) if entry.block_hash else None,
            )
            for entry in body.datasets
        )
    asked = QueryData(sql=body.query, datasets=datasets, skip=body.skip, limit=body.limit)
    form = QueryForm(
        data_format=body.data_format,
        include=tuple(body.include),
        schema_format=body.schema_format,
        dialect=body.query_dialect,
    )
    return JSONResponse(node_of(request).query_document(asked, form))
