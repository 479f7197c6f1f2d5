"""Routes of the catalog.

Create, list, find, delete datasets, and change the transform or the sources of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated, Any, Protocol
from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Request, Response
from pydantic import Field

from odfabric.errors import NotFound
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Visibility
from odfabric.usecases.datasets.set_info import info_events
from odfabric.wiring import Node
from odfabric.wiring.composed.renaming import rename
from odfabric_api.auth import (
    Anybody,
    Caller,
    DeletableById,
    DeletableDataset,
    Member,
    ReadableById,
    WritableDataset,
    node_of,
    owner_account,
)
from odfabric_api.bodies import search_request
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_body, read_json
from odfabric_api.bodies.schemas import (
    DatasetCreated,
    DatasetFound,
    DatasetPage,
    InfoChanged,
    SourcesChanged,
    TransformChanged,
    answers,
)
from odfabric_api.bodies.search_request import AskedSearch, ChangedWithin, KindAsked
from odfabric_api.contract import check_media_type
from odfabric_api.manifests import manifest_text, named, one_snapshot, own_snapshot
from odfabric_api.preconditions import IF_MATCH, check_page_limit, header_parameters, if_match_of, media_type_of

router = APIRouter(tags=["datasets"])

YAML_MEDIA_TYPES = (
    "application/yaml",
    "application/x-yaml",
    "text/yaml",
    "text/x-yaml",
    "application/json",
    "text/plain",
)
PAGE_ROWS_DEFAULT = 100


class NameBody(JsonModel):
    """Another name in the same account."""

    name: str = Field(max_length=100)


_MANIFEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "description": "One DatasetSnapshot manifest, YAML or JSON (docs/manifest.schema.json)",
        "content": {media_type: {"schema": {"type": "string"}} for media_type in YAML_MEDIA_TYPES},
    }
}


@router.post(
    "/datasets",
    status_code=201,
    summary="Create a dataset from a manifest",
    responses=answers(DatasetCreated, status=201, text="The dataset"),
    openapi_extra=_MANIFEST_BODY,
)
async def create_dataset(
    request: Request,
    caller: Member,
    visibility: Annotated[Visibility, Query(description="Whether everybody may read it")] = Visibility.PRIVATE,
) -> Response:
    """One DatasetSnapshot, YAML or JSON.

    A name without an account is one of the caller's own. 201 with id, alias and head.
    """
    node, limits = node_of(request), node_of(request).manifest_limits
    body = await _manifest_body(request)

    def create() -> tuple[CatalogEntry, Multihash]:
        placed = one_snapshot(manifest_text(body), limits=limits)
        with placed.refusals_in_file():
            return node.datasets.create(placed.snapshot, caller, visibility=visibility)

    entry, head = await to_thread.run_sync(create)
    return JsonAnswer(
        {"id": str(entry.id), "alias": str(entry.alias), "head": str(head)},
        status_code=201,
        headers={"location": f"/datasets/{quote(str(entry.id))}"},
    )


def _asked(
    q: search_request.Words = "",
    kind: Annotated[KindAsked | None, Query(description="Kind of the datasets")] = None,
    account: search_request.Account = "",
    keyword: search_request.Keyword = "",
    license: search_request.License = "",
    changed: Annotated[ChangedWithin | None, Query(description="How long ago they changed at most")] = None,
) -> AskedSearch:
    return AskedSearch(q=q, kind=kind, account=account, keyword=keyword, license=license, changed=changed)


@router.get("/datasets", summary="List or search datasets", responses=answers(DatasetPage, text="A page"))
def list_datasets(
    request: Request,
    caller: Anybody,
    asked: Annotated[AskedSearch, Depends(_asked)],
    limit: Annotated[int, Query(description="Most entries of the page")] = PAGE_ROWS_DEFAULT,
    after: Annotated[str | None, Query(description="Alias after which the page begins")] = None,
) -> Response:
    """A page in order of names; the Link header leads to the next one.

    With words or facets only what fulfils all of them.
    """
    node = node_of(request)
    check_page_limit(limit, node.settings.page_rows_max)
    start = node.seen_by(caller).local_alias(*_account_and_name(after)) if after is not None else None
    page = node.datasets.page(asked.narrowing(node.ports.clock.now()), by=caller, after=start, limit=limit)
    headers = {}
    if len(page) == limit:
        following = asked.address("/datasets", limit=limit, after=str(page[-1].alias))
        headers["link"] = f'<{following}>; rel="next"'
    return JsonAnswer({"datasets": list(_listed(node, page))}, headers=headers)


@router.get("/datasets/{dataset_id}", summary="Find a dataset by id", responses=answers(DatasetFound, text="Its names"))
def find_dataset(request: Request, entry: ReadableById) -> Response:
    """Its owner and name."""
    return _found(request, entry)


def _found(request: Request, entry: CatalogEntry) -> Response:
    account = owner_account(request, entry)
    owner = {"accountName": str(entry.alias.account), "accountId": str(account.id) if account else None}
    return JsonAnswer({"id": str(entry.id), "owner": owner, "datasetName": str(entry.alias.name)})


@router.delete(
    "/datasets/{dataset_id}",
    status_code=204,
    summary="Delete a dataset",
    responses=answers(None, status=204),
    openapi_extra=header_parameters(IF_MATCH),
)
def delete_dataset(request: Request, entry: DeletableById, caller: Caller) -> Response:
    """With `If-Match` only if the head is that block.

    An input of other datasets is kept: 409 with their names in `usedBy`.
    """
    node_of(request).datasets.delete(entry, by=caller, if_match=if_match_of(request))
    return Response(status_code=204)


@router.put(
    "/{account}/{dataset}/name",
    summary="Rename a dataset",
    responses=answers(DatasetFound, text="Its names"),
    openapi_extra=json_body(NameBody, required=True),
)
async def put_name(request: Request, entry: DeletableDataset, caller: Caller) -> Response:
    """Its id, history and rights stay, and datasets derived from it go on.

    The old address leads nowhere then.
    """
    node = node_of(request)
    body = await read_json(request, NameBody, bytes_max=node.settings.json_body_bytes_max)
    renamed = await to_thread.run_sync(lambda: rename(node, entry, body.name, by=caller))
    return _found(request, renamed)


@router.put(
    "/{account}/{dataset}/transform",
    summary="Change the transform of a dataset",
    responses=answers(TransformChanged, text="What the next pull makes of it"),
    openapi_extra=_MANIFEST_BODY,
)
async def set_transform(
    request: Request,
    entry: WritableDataset,
    caller: Caller,
    anew: Annotated[bool, Query(description="Compute also what stays the same from the beginning")] = False,
) -> Response:
    """The transform of a DatasetSnapshot of this name.

    Its other events are not looked at. The next pull makes the rows those of the new query. Without `blocks` the
    dataset has this transform already."""
    verbs = node_of(request).editing
    return await _changed(
        request, entry, lambda snapshot: verbs.set_transform(named(snapshot, entry.alias), caller, anew=anew)
    )


@router.put(
    "/{account}/{dataset}/sources",
    summary="Change the sources of a dataset",
    responses=answers(SourcesChanged, text="What was changed"),
    openapi_extra=_MANIFEST_BODY,
)
async def set_source(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """The sources of a DatasetSnapshot of this name.

    Its other events are not looked at. A push source takes the place of that with its name, and new optional columns
    are added to the schema. Without `blocks` the dataset has these sources already."""
    verbs = node_of(request).editing
    return await _changed(request, entry, lambda snapshot: verbs.set_source(named(snapshot, entry.alias), caller))


@router.put(
    "/{account}/{dataset}/info",
    summary="Change what a dataset says of itself",
    responses=answers(InfoChanged, text="What was changed"),
    openapi_extra=_MANIFEST_BODY,
)
async def set_info(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """Set description, licence and documents from a DatasetSnapshot.

    SetInfo, SetLicense and SetAttachments of a DatasetSnapshot of this name; its other events are not looked at, and of
    what it leaves out the dataset keeps its own. Without `blocks` it says so already."""
    verbs = node_of(request).editing
    return await _changed(
        request, entry, lambda snapshot: verbs.set_info(entry, info_events(snapshot.metadata), caller)
    )


class _Change(Protocol):
    def to_value(self, head: Head) -> dict[str, object]: ...


async def _changed(request: Request, entry: CatalogEntry, change: Callable[[DatasetSnapshot], _Change]) -> Response:
    """The answer to a manifest of an existing dataset; `change` takes what it needs."""
    node = node_of(request)
    body = await _manifest_body(request)

    def act() -> dict[str, object]:
        placed = own_snapshot(manifest_text(body), entry, limits=node.manifest_limits)
        with placed.refusals_in_file():
            found = change(placed.snapshot)
        return found.to_value(node.datasets.head(entry))

    return JsonAnswer(await to_thread.run_sync(act))


async def _manifest_body(request: Request) -> bytes:
    if media_type_of(request) is not None:
        check_media_type(request, YAML_MEDIA_TYPES)
    return await read_body(request, bytes_max=node_of(request).manifest_limits.bytes_max, limit="manifest_bytes_max")


def _account_and_name(text: str) -> tuple[str | None, str]:
    alias = parse_dataset_alias(text)
    return (str(alias.account) if alias.account else None, str(alias.name))


def _listed(node: Node, page: Sequence[CatalogEntry]) -> Iterator[dict[str, str]]:
    for entry in page:
        try:
            head = node.datasets.head(entry)
        except NotFound:
            continue  # deleted since the page was read
        yield {
            "id": str(entry.id),
            "alias": str(entry.alias),
            "kind": entry.kind.name.capitalize(),
            "head": str(head.hash),
        }
