"""Routes of a dataset's key: rotate it, export it sealed, import it sealed.

Invariant: a private key leaves the node, and comes to it, only sealed by a passphrase of its owner. Source: ADR 0080.
"""

from __future__ import annotations

from functools import partial

from anyio import to_thread
from fastapi import APIRouter, Request, Response
from pydantic import Field

from odfabric.formats.heads.head_log import shown_key
from odfabric.formats.heads.key_document import DOCUMENT_BYTES_MAX, PASSPHRASE_CHARACTERS_MIN
from odfabric_api.auth import Caller, RewritableDataset, node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.json_body import JsonModel, json_body, read_json
from odfabric_api.bodies.schemas import answers
from odfabric_api.bodies.transfer_schemas import KeyDocument, SignerAnswer

router = APIRouter(tags=["history"])

PASSPHRASE_CHARACTERS_MAX = 1024


class ExportKeyBody(JsonModel):
    """What seals the key."""

    passphrase: str = Field(
        min_length=PASSPHRASE_CHARACTERS_MIN,
        max_length=PASSPHRASE_CHARACTERS_MAX,
        description="It opens the exported key; nobody can restore it",
    )


class ImportKeyBody(JsonModel):
    """A key that was exported, and what opens it."""

    document: str = Field(max_length=DOCUMENT_BYTES_MAX, description="The text that the export answered")
    passphrase: str = Field(max_length=PASSPHRASE_CHARACTERS_MAX, description="What it was sealed with")


@router.post(
    "/{account}/{dataset}/key/rotate",
    summary="Sign a dataset with a new key from now on",
    responses=answers(SignerAnswer, text="The new signer"),
)
def rotate_key(request: Request, entry: RewritableDataset, caller: Caller) -> Response:
    """The present key signs the hand-over; the id of the dataset stays.

    403 where the present key is not on this node.
    """
    return JsonAnswer({"signer": shown_key(node_of(request).heads.rotate(entry, by=caller))})


@router.post(
    "/{account}/{dataset}/key/export",
    summary="Export the key that signs a dataset, sealed",
    responses=answers(KeyDocument, text="The sealed key; keep the text as it is"),
    openapi_extra=json_body(ExportKeyBody, required=True),
)
async def export_key(request: Request, entry: RewritableDataset, caller: Caller) -> Response:
    """Sealed by the passphrase: scrypt and ChaCha20-Poly1305.

    The audit keeps who has exported it.

    403 where the key is not on this node.
    """
    node = node_of(request)
    body = await read_json(request, ExportKeyBody, bytes_max=node.settings.json_body_bytes_max)
    export = partial(node.heads.export_sealed, entry, passphrase=body.passphrase, by=caller)
    document = await to_thread.run_sync(export)
    headers = {"cache-control": "no-store", "content-disposition": f'attachment; filename="{entry.alias.name}.key"'}
    return Response(document, media_type="application/json", headers=headers)


@router.post(
    "/{account}/{dataset}/key/import",
    summary="Let this node sign a dataset whose key was exported elsewhere",
    responses=answers(SignerAnswer, text="The signer"),
    openapi_extra=json_body(ImportKeyBody, required=True),
)
async def import_key(request: Request, entry: RewritableDataset, caller: Caller) -> Response:
    """Only the key that signs the dataset now, and only sealed.

    Let one place at a time write to the dataset: two that sign at once make a fork.
    """
    node = node_of(request)
    body = await read_json(request, ImportKeyBody, bytes_max=node.settings.json_body_bytes_max)
    keep = partial(node.heads.import_sealed, entry, body.document.encode(), passphrase=body.passphrase, by=caller)
    return JsonAnswer({"signer": shown_key(await to_thread.run_sync(keep))})
