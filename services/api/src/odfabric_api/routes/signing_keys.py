"""Routes of the public keys with which receivers check who sent a webhook."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response

from odfabric.formats.webhooks.message_signature import KEY_SET_TYPE, key_set
from odfabric_api.auth import node_of
from odfabric_api.bodies.json_answer import JsonAnswer
from odfabric_api.bodies.schemas import SigningKeySet, answers

router = APIRouter(tags=["subscriptions"])

CACHED_S = 3600
"""A receiver that meets a key id that it does not know asks again sooner."""


def _described() -> dict[int | str, dict[str, Any]]:
    schema = {"schema": {"$ref": f"#/components/schemas/{SigningKeySet.__name__}"}}
    found = answers(SigningKeySet, text="A JSON Web Key Set (RFC 7517) of Ed25519 keys (RFC 8037)")
    return {**found, 200: {"description": found[200]["description"], "content": {KEY_SET_TYPE: schema}}}


@router.get(
    "/.well-known/http-message-signatures-directory",
    summary="Public keys that sign webhooks",
    responses=_described(),
)
def get_signatures_directory(request: Request) -> Response:
    """The key that signs (RFC 9421), first, and those that were retired not long ago."""
    return _key_set(request, KEY_SET_TYPE)


@router.get(
    "/.well-known/jwks.json",
    summary="Public keys that sign webhooks, as other software looks for them",
    responses=answers(SigningKeySet, text="The same JSON Web Key Set"),
)
def get_jwks(request: Request) -> Response:
    """The same as `/.well-known/http-message-signatures-directory`."""
    return _key_set(request, "application/json")


def _key_set(request: Request, media_type: str) -> Response:
    keys = node_of(request).webhooks.signature.published()
    headers = {"cache-control": f"public, max-age={CACHED_S}"}
    return JsonAnswer(key_set(key.public for key in keys), media_type=media_type, headers=headers)
