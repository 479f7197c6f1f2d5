"""Routes of saved queries: what the caller keeps by name, seen by nobody else."""

from __future__ import annotations

from typing import Annotated

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from odfabric.model.people.saved_query import SavedQuery
from odfabric.usecases.people.saved_queries import (
    NAME_CHARACTERS_MAX,
    change_query,
    delete_query,
    get_query,
    list_queries,
    save_query,
)
from odfabric_api.auth import Member, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.people_schemas import SavedQueryList, SavedQueryView
from odfabric_api.bodies.schemas import answers

router = APIRouter(tags=["query"])

QueryId = Annotated[str, Path(description="Id of the saved query, as the answer 201 told it")]


class SavedQueryBody(JsonModel):
    """A query to save."""

    name: str = Field(max_length=NAME_CHARACTERS_MAX, description="Unique among the caller's")
    sql: str = Field(description="Any text: it is read when it is run")


class SavedQueryChange(JsonModel):
    """What to change of a saved query; null leaves it as it is."""

    name: str | None = Field(None, max_length=NAME_CHARACTERS_MAX)
    sql: str | None = None


@router.get("/accounts/me/queries", summary="Saved queries", responses=answers(SavedQueryList, text="All, by name"))
def get_saved_queries(request: Request, caller: Member) -> Response:
    """The caller's own, in order of names."""
    found = list_queries(subject=caller, ports=node_of(request).people)
    return JsonAnswer({"queries": [_value(each) for each in found]})


@router.post(
    "/accounts/me/queries",
    status_code=201,
    summary="Save a query",
    responses=answers(SavedQueryView, status=201, text="The saved query"),
    openapi_extra=json_body(SavedQueryBody, required=True),
)
async def post_saved_query(request: Request, caller: Member) -> Response:
    """Keep a query under a name that the caller does not use yet."""
    node = node_of(request)
    body = await read_json(request, SavedQueryBody, bytes_max=node.settings.query_body_bytes_max)

    def save() -> Response:
        query = save_query(body.name, body.sql, subject=caller, ports=node.people)
        headers = {"location": f"/accounts/me/queries/{query.id}"}
        return JsonAnswer(_value(query), status_code=201, headers=headers)

    return await to_thread.run_sync(save)


@router.get(
    "/accounts/me/queries/{query_id}", summary="A saved query", responses=answers(SavedQueryView, text="The query")
)
def get_saved_query(request: Request, caller: Member, query_id: QueryId) -> Response:
    """One of the caller's own."""
    return JsonAnswer(_value(get_query(query_id, subject=caller, ports=node_of(request).people)))


@router.patch(
    "/accounts/me/queries/{query_id}",
    summary="Rename a saved query, or replace its text",
    responses=answers(SavedQueryView, text="The query as it is now"),
    openapi_extra=json_body(SavedQueryChange, required=True),
)
async def patch_saved_query(request: Request, caller: Member, query_id: QueryId) -> Response:
    """What is not given stays as it is."""
    node = node_of(request)
    body = await read_json(request, SavedQueryChange, bytes_max=node.settings.query_body_bytes_max)

    def change() -> Response:
        query = change_query(query_id, name=body.name, sql=body.sql, subject=caller, ports=node.people)
        return JsonAnswer(_value(query))

    return await to_thread.run_sync(change)


@router.delete(
    "/accounts/me/queries/{query_id}",
    status_code=204,
    summary="Delete a saved query",
    responses=answers(None, status=204),
)
def delete_saved_query(request: Request, caller: Member, query_id: QueryId) -> Response:
    """One of the caller's own."""
    delete_query(query_id, subject=caller, ports=node_of(request).people)
    return Response(status_code=204)


def _value(query: SavedQuery) -> dict[str, object]:
    return {
        "id": query.id,
        "name": query.name,
        "sql": query.sql,
        "createdAt": str(query.created_at),
        "changedAt": str(query.changed_at),
    }
