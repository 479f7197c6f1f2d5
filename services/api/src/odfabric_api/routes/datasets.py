"""Routes of the catalog: create, list, find, delete datasets."""

from __future__ import annotations

from urllib.parse import quote

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from starlette.responses import JSONResponse

from odfabric.domain.access import Action
from odfabric.errors import InvalidRequest, Place, UnsupportedMediaType
from odfabric.formats.did import parse_dataset_id
from odfabric.formats.manifest_yaml import parse_snapshots
from odfabric.formats.references import parse_dataset_alias
from odfabric.model.commit import CatalogEntry
from odfabric.model.manifest import DatasetSnapshot
from odfabric_api.auth import node_of, require_account, subject_of
from odfabric_api.json_body import read_body
from odfabric_api.preconditions import if_match_of, media_type_of

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

_MANIFEST_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/yaml": {"schema": {"type": "string", "description": "a DatasetSnapshot manifest"}}},
    }
}


@router.post("/datasets", status_code=201, summary="Create a dataset from a manifest", openapi_extra=_MANIFEST_BODY)
async def create(request: Request) -> Response:
    """One DatasetSnapshot, YAML or JSON. 201 with id, alias and head."""
    subject = subject_of(request)
    require_account(request, Action.CREATE)
    node = node_of(request)
    essence = (media_type_of(request) or "application/yaml").partition(";")[0].strip().lower()
    if essence not in YAML_MEDIA_TYPES:
        raise UnsupportedMediaType(
            f"Unsupported media type: {essence}", hint=f"send one of {', '.join(YAML_MEDIA_TYPES)}"
        )
    body = await read_body(request, bytes_max=node.settings.manifest_bytes_max, limit="manifest_bytes_max")
    snapshot = _one_snapshot(body)
    entry, head = await to_thread.run_sync(node.create, snapshot, subject)
    location = f"/datasets/{quote(str(entry.id))}"
    return JSONResponse(
        {"id": str(entry.id), "alias": str(entry.alias), "head": str(head)},
        status_code=201,
        headers={"location": location},
    )


@router.get("/datasets", summary="List datasets")
def list_datasets(request: Request, limit: int = PAGE_ROWS_DEFAULT, after: str | None = None) -> Response:
    """A page in order of names; the Link header leads to the next one."""
    require_account(request, Action.READ)
    node = node_of(request)
    if not 1 <= limit <= node.settings.page_rows_max:
        raise InvalidRequest(
            f"limit is between 1 and {node.settings.page_rows_max}", place=Place(field="limit"), hint="use pages"
        )
    start = node.repository.local_alias(*_account_and_name(after)) if after else None
    page = node.datasets(after=start, limit=limit)
    headers = {}
    if len(page) == limit:
        headers["link"] = f'</datasets?limit={limit}&after={quote(str(page[-1].alias), safe="")}>; rel="next"'
    return JSONResponse({"datasets": [_listed(request, entry) for entry in page]}, headers=headers)


@router.get("/datasets/{dataset_id}", summary="Find a dataset by id")
def find(request: Request, dataset_id: str) -> Response:
    """Its owner and name."""
    require_account(request, Action.READ)
    node = node_of(request)
    entry = node.resolve(parse_dataset_id(dataset_id))
    owner = {"accountName": str(entry.alias.account), "accountId": node.account_id}
    return JSONResponse({"id": str(entry.id), "owner": owner, "datasetName": str(entry.alias.name)})


@router.delete("/datasets/{dataset_id}", status_code=204, summary="Delete a dataset")
def delete(request: Request, dataset_id: str) -> Response:
    """With `If-Match` only if the head is that block."""
    require_account(request, Action.MAINTAIN)
    node = node_of(request)
    entry = node.resolve(parse_dataset_id(dataset_id))
    node.delete(entry, if_match=if_match_of(request))
    return Response(status_code=204)


def _one_snapshot(body: bytes) -> DatasetSnapshot:
    try:
        text = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest("the manifest is not UTF-8", place=Place(field="body", column=error.start + 1)) from None
    snapshots = parse_snapshots(text, file=None)
    if len(snapshots) != 1:
        raise InvalidRequest(f"expected one manifest, found {len(snapshots)}", hint="send one document a request")
    return snapshots[0]


def _account_and_name(text: str) -> tuple[str | None, str]:
    alias = parse_dataset_alias(text)
    return (str(alias.account) if alias.account else None, str(alias.name))


def _listed(request: Request, entry: CatalogEntry) -> dict[str, str]:
    head = node_of(request).head(entry)
    return {
        "id": str(entry.id),
        "alias": str(entry.alias),
        "kind": entry.kind.name.capitalize(),
        "head": str(head.hash),
    }
