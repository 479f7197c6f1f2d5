"""HTTP message signatures with Ed25519: signature base, fields, key set.

Owns the signature base, the members `odfabric` of the fields `signature-input` and `signature`, `content-digest`, and public keys as JSON
Web Keys. Invariant: a value of a component has no line break, so a base is read in one way only. Not here: where keys are kept
(`ports.node.signing_keys`). Source: RFC 9421, RFC 9530, RFC 7638, RFC 8037.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from odfabric.model.instant import NANOS_PER_SECOND, Instant

LABEL = "odfabric"
"""The member of both fields. RFC 9421 lets the signer choose it."""
TAG = "odfabric-webhook"
INPUT_HEADER = "signature-input"
SIGNATURE_HEADER = "signature"
DIGEST_HEADER = "content-digest"
COVERED_HEADERS = (DIGEST_HEADER, "content-type", "webhook-id")
KEY_SET_TYPE = "application/http-message-signatures-directory+json"

Component = tuple[str, str]
"""Name without quotes, and value."""


def signature_base(components: Sequence[Component], parameters: str) -> bytes:
    """The bytes that are signed.

    `parameters` is the value of the member in `signature-input`.

    Raises ValueError for a value that cannot be signed.
    """
    if any(not value.isascii() or not value.isprintable() for _, value in components):
        raise ValueError("values of signed components are printable ASCII")
    lines = [f'"{name}": {value.strip()}' for name, value in (*components, ("@signature-params", parameters))]
    return "\n".join(lines).encode("ascii")


def content_digest(body: bytes) -> str:
    """The value of `content-digest`."""
    return f"sha-256=:{_base64(hashlib.sha256(body).digest())}:"


def sign_request(
    headers: Mapping[str, str], *, method: str, target_uri: str, body: bytes, private: bytes, created: Instant
) -> dict[str, str]:
    """The headers of a request with its signature and its digest.

    Names are in lower case, and `COVERED_HEADERS` but the digest are there. A signature that the request has already stays, and comes first.
    Raises ValueError for a value that cannot be signed.
    """
    signed = {**headers, DIGEST_HEADER: content_digest(body)}
    components = [("@method", method), ("@target-uri", target_uri)]
    components += [(name, signed[name]) for name in COVERED_HEADERS]
    key = Ed25519PrivateKey.from_private_bytes(private)
    names = " ".join(f'"{name}"' for name, _ in components)
    parameters = (
        f"({names});created={created.epoch_ns // NANOS_PER_SECOND}"
        f';keyid="{thumbprint(public_half(private))}";alg="ed25519";tag="{TAG}"'
    )
    signature = key.sign(signature_base(components, parameters))
    for field, member in ((INPUT_HEADER, parameters), (SIGNATURE_HEADER, f":{_base64(signature)}:")):
        before = f"{signed[field]}, " if field in signed else ""
        signed[field] = f"{before}{LABEL}={member}"
    return signed


def public_half(private: bytes) -> bytes:
    """The 32 bytes of the public key of a private one."""
    return Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def thumbprint(public: bytes) -> str:
    """What a public key is known by: the SHA-256 thumbprint of its JSON Web Key."""
    members = json.dumps(_key_members(public), separators=(",", ":"), sort_keys=True)
    return _base64_url(hashlib.sha256(members.encode("ascii")).digest())


def key_set(keys: Iterable[bytes]) -> dict[str, object]:
    """Public keys as a JSON Web Key Set."""
    return {
        "keys": [{**_key_members(public), "kid": thumbprint(public), "use": "sig", "alg": "EdDSA"} for public in keys]
    }


def _key_members(public: bytes) -> dict[str, str]:
    return {"crv": "Ed25519", "kty": "OKP", "x": _base64_url(public)}


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _base64_url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")
