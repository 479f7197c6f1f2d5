"""The node's public keys over HTTP: for everybody, cacheable, same in both places."""

from __future__ import annotations

import base64

import httpx

from odfabric.formats.webhooks.message_signature import thumbprint
from odfabric.testing.memory_node import MemoryNode

DIRECTORY = "/.well-known/http-message-signatures-directory"


def test_the_key_set_has_the_key_that_signs_first(client: httpx.Client, memory: MemoryNode) -> None:
    old = memory.node.webhooks.signature.renew()
    new = memory.node.webhooks.signature.renew()
    answer = client.get(DIRECTORY)
    assert answer.headers["content-type"] == "application/http-message-signatures-directory+json"
    assert answer.headers["cache-control"] == "public, max-age=3600"
    first, second = answer.json()["keys"][:2]
    assert (first["kid"], second["kid"]) == (new.id, old.id)
    assert thumbprint(base64.urlsafe_b64decode(first["x"] + "=")) == first["kid"]
    assert set(first) == {"kty", "crv", "x", "kid", "use", "alg"}
    jwks = client.get("/.well-known/jwks.json")
    assert jwks.headers["content-type"] == "application/json"
    assert jwks.json() == answer.json()
