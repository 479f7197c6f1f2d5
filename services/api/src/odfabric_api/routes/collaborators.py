"""Routes of sharing: roles on a dataset, and whether everybody may read it."""

from __future__ import annotations

from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from odfabric.model.people.account import DatasetRole, Visibility
from odfabric.usecases.people.accounts import named_account
from odfabric.usecases.people.sharing import list_collaborators, set_role, set_visibility, visibility_of
from odfabric.usecases.people.values import role_value
from odfabric_api.auth import Caller, ReadableDataset, SharableDataset, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.people_schemas import CollaboratorList, CollaboratorView, VisibilityView
from odfabric_api.bodies.schemas import answers
from odfabric_api.preconditions import VERSION_MATCH, header_parameters, version_of, version_tag

router = APIRouter(tags=["sharing"])

CollaboratorName = Annotated[str, Path(description="Name of a user or an organisation")]


class RoleBody(JsonModel):
    """A role on a dataset; each may do all that the one before may."""

    role: Literal["reader", "contributor", "editor", "maintainer", "owner"] = Field(
        description="`reader` reads and subscribes, `contributor` pushes rows too, `editor` changes sources and transforms, "
        "`maintainer` shares, `owner` deletes"
    )


class VisibilityBody(JsonModel):
    """Whether everybody may read a dataset."""

    visibility: Literal["private", "public"]


@router.get(
    "/{account}/{dataset}/collaborators",
    summary="Who may do what with a dataset",
    responses=answers(CollaboratorList, text="Roles and visibility"),
)
def get_collaborators(request: Request, entry: SharableDataset, caller: Caller) -> Response:
    """The owner, who may do everything, is not in the list."""
    people = node_of(request).people
    found = list_collaborators(entry, subject=caller, ports=people)
    value = {
        "visibility": visibility_of(entry, ports=people).value,
        "collaborators": [role_value(each.account, each.grant) for each in found],
    }
    return JsonAnswer(value)


@router.put(
    "/{account}/{dataset}/collaborators/{name}",
    summary="Give an account a role on a dataset",
    responses=answers(CollaboratorView, text="The role as it is now"),
    openapi_extra={**json_body(RoleBody, required=True), **header_parameters(VERSION_MATCH)},
)
async def put_collaborator(
    request: Request, entry: SharableDataset, caller: Caller, name: CollaboratorName
) -> Response:
    """Nobody gives a role above their own.

    An organisation's role is that of all its members.
    """
    node = node_of(request)
    body = await read_json(request, RoleBody, bytes_max=node.settings.json_body_bytes_max)

    def change() -> Response:
        role, version = DatasetRole(body.role), version_of(request)
        made = set_role(entry, name, role, version=version, subject=caller, ports=node.people)
        assert made is not None
        value = role_value(named_account(name, ports=node.people), made)
        return JsonAnswer(value, headers={"etag": version_tag(made.version)})

    return await to_thread.run_sync(change)


@router.delete(
    "/{account}/{dataset}/collaborators/{name}",
    status_code=204,
    summary="Take a role on a dataset away",
    responses=answers(None, status=204),
    openapi_extra=header_parameters(VERSION_MATCH),
)
def delete_collaborator(request: Request, entry: ReadableDataset, caller: Caller, name: CollaboratorName) -> Response:
    """It stops to count at once, in streams that are open too.

    Anyone who has a role may give it back.
    """
    set_role(entry, name, None, version=version_of(request), subject=caller, ports=node_of(request).people)
    return Response(status_code=204)


@router.get(
    "/{account}/{dataset}/visibility",
    summary="Whether everybody may read a dataset",
    responses=answers(VisibilityView, text="It is so"),
)
def get_visibility(request: Request, entry: ReadableDataset) -> Response:
    """`private` or `public`."""
    return JsonAnswer({"visibility": visibility_of(entry, ports=node_of(request).people).value})


@router.put(
    "/{account}/{dataset}/visibility",
    summary="Let everybody read a dataset, or not any more",
    responses=answers(VisibilityView, text="It is so now"),
    openapi_extra=json_body(VisibilityBody, required=True),
)
async def put_visibility(request: Request, entry: SharableDataset, caller: Caller) -> Response:
    """A public dataset needs no account to be read, queried or copied."""
    node = node_of(request)
    body = await read_json(request, VisibilityBody, bytes_max=node.settings.json_body_bytes_max)
    wanted = Visibility(body.visibility)
    await to_thread.run_sync(lambda: set_visibility(entry, wanted, subject=caller, ports=node.people))
    return JsonAnswer({"visibility": wanted.value})
