"""Routes of remote repositories, and of where a dataset is pushed to.

Repositories are names for prefixes of URLs, of an account or of the node.
"""

from __future__ import annotations

from typing import Annotated, Literal

from anyio import to_thread
from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import Field

from odfabric.model.jobs.requests import SendWish
from odfabric.model.people.account import Visibility
from odfabric.model.transfer.repository import RemoteAlias
from odfabric.usecases.transfer.repositories import repository_value
from odfabric_api.auth import Admin, Caller, Member, Subject, WritableDataset, node_of
from odfabric_api.bodies.jobs_answer import accepted
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.schemas import Accepted, answers
from odfabric_api.bodies.transfer_schemas import FoundElsewhere, RemoteAliasList, RepositoryList, RepositoryView

router = APIRouter(tags=["transfer"])

RepositoryName = Annotated[str, Path(description="Name of the repository")]


class RepositoryBody(JsonModel):
    """A repository to make known."""

    name: str = Field(max_length=100, description="Letters and digits, single `.` or `-` between them")
    url: str = Field(
        max_length=1000,
        description="`odf+https://host/`, `https://host/`, `s3://bucket/folder`, `s3+https://host/bucket/folder` or `file:///folder`; "
        "datasets are at `[account/]name` below it. It holds no credential",
    )


class SendBody(JsonModel):
    """Where a dataset is pushed to."""

    to: str | None = Field(
        None,
        min_length=1,
        max_length=2000,
        description="A URL, a repository, or `repository/[account/]dataset`; default: where it was pushed to before, else the only repository",
    )
    force: bool = Field(
        False,
        description="Replace what is there if it is ahead of the dataset or aside from it; takes the right to rewrite its history",
    )
    visibility: Literal["private", "public"] = Field(
        "private", description="Whether everybody may read a dataset that is new on a node"
    )


@router.get(
    "/accounts/me/repositories",
    summary="Repositories elsewhere",
    responses=answers(RepositoryList, text="The caller's own, then the node's"),
)
def get_repositories(request: Request, caller: Member) -> Response:
    """No network is asked."""
    found = node_of(request).sharing.repositories.listed(by=caller)
    return JsonAnswer({"repositories": [repository_value(each) for each in found]})


@router.post(
    "/accounts/me/repositories",
    status_code=201,
    summary="Make a repository known to the account",
    responses=answers(RepositoryView, status=201, text="The repository"),
    openapi_extra=json_body(RepositoryBody, required=True),
)
async def post_repository(request: Request, caller: Member) -> Response:
    """From then on `name/[account/]dataset` names datasets there. No network is asked."""
    return await _added(request, caller, shared=False)


@router.delete(
    "/accounts/me/repositories/{name}",
    status_code=204,
    summary="Forget a repository of the account",
    responses=answers(None, status=204),
)
def delete_repository(request: Request, caller: Member, name: RepositoryName) -> Response:
    """What was pulled from it or pushed to it stays."""
    node_of(request).sharing.repositories.remove(name, shared=False, by=caller)
    return Response(status_code=204)


@router.get(
    "/accounts/me/repositories/{name}/datasets",
    summary="Search a repository",
    responses=answers(FoundElsewhere, text="Datasets there, as they are named here"),
)
def search_repository(
    request: Request,
    caller: Member,
    name: RepositoryName,
    q: Annotated[
        str, Query(max_length=200, description="Part of the name; of nodes also what they find otherwise")
    ] = "",
) -> Response:
    """Folders and buckets are listed, nodes are asked with the token of their origin."""
    return JsonAnswer({"datasets": node_of(request).sharing.search(name, q, by=caller)})


@router.post(
    "/admin/repositories",
    status_code=201,
    summary="Make a repository known to all accounts",
    responses=answers(RepositoryView, status=201, text="The repository"),
    openapi_extra=json_body(RepositoryBody, required=True),
)
async def post_shared_repository(request: Request, caller: Admin) -> Response:
    """An account's own repository of the same name goes before it."""
    return await _added(request, caller, shared=True)


@router.delete(
    "/admin/repositories/{name}",
    status_code=204,
    summary="Forget a repository of the node",
    responses=answers(None, status=204),
)
def delete_shared_repository(request: Request, caller: Admin, name: RepositoryName) -> Response:
    """What was pulled from it or pushed to it stays."""
    node_of(request).sharing.repositories.remove(name, shared=True, by=caller)
    return Response(status_code=204)


@router.post(
    "/{account}/{dataset}/push",
    status_code=202,
    summary="Push a dataset to another node, a folder or a bucket",
    responses=answers(Accepted, status=202, text="The job"),
    openapi_extra=json_body(SendBody, required=False),
)
async def push_dataset(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """What is there already is not sent again.

    202 with the job; its result is `{to, head, blocks, objects, bytes, replacedBlocks, upToDate}`.
    """
    node = node_of(request)
    body = await read_json(request, SendBody, bytes_max=node.settings.json_body_bytes_max)
    visibility = Visibility(body.visibility)
    wish = SendWish(to=body.to, force=body.force, visibility=visibility)
    return accepted(await to_thread.run_sync(lambda: node.sharing.push(entry, wish, by=caller)))


@router.get(
    "/{account}/{dataset}/aliases",
    summary="Where a dataset is pulled from and pushed to",
    responses=answers(RemoteAliasList, text="Pull aliases, then push aliases"),
)
def get_aliases(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """`kind` is `pull` or `push`."""
    found = node_of(request).sharing.repositories.aliases(entry, by=caller)
    return JsonAnswer({"aliases": [_alias_value(each) for each in found]})


@router.delete(
    "/{account}/{dataset}/aliases",
    status_code=204,
    summary="Forget where a dataset was pushed to",
    responses=answers(None, status=204),
)
def delete_alias(
    request: Request,
    entry: WritableDataset,
    caller: Caller,
    target: Annotated[str, Query(description="The alias as it is listed")],
) -> Response:
    """What is there stays."""
    node_of(request).sharing.repositories.forget_alias(entry, target, by=caller)
    return Response(status_code=204)


async def _added(request: Request, caller: Subject, *, shared: bool) -> Response:
    node = node_of(request)
    body = await read_json(request, RepositoryBody, bytes_max=node.settings.json_body_bytes_max)

    def add() -> Response:
        made = node.sharing.repositories.add(body.name, body.url, shared=shared, by=caller)
        return JsonAnswer(repository_value(made), status_code=201)

    return await to_thread.run_sync(add)


def _alias_value(alias: RemoteAlias) -> dict[str, object]:
    return {"kind": alias.kind.value, "target": alias.target}
