"""Records beside a dataset, signed by its key.

Owns which bytes are signed: a domain, the dataset's id, and the canonical JSON of the record without `signer` and `signature`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from odfabric.errors import InvalidName
from odfabric.formats.identifiers.did import did_key, parse_did_key
from odfabric.formats.json_values.canonical_json import JsonValue, canonical_json
from odfabric.model.identity import DatasetId

RECORD_DOMAIN = b"odfabric record 1\n"
SIGNER, SIGNATURE = "signer", "signature"


def record_to_sign(dataset: DatasetId, record: Mapping[str, JsonValue]) -> bytes:
    """The bytes of a record that its signer signs."""
    unsigned = {name: value for name, value in record.items() if name not in (SIGNER, SIGNATURE)}
    return RECORD_DOMAIN + str(dataset).encode("ascii") + b"\n" + canonical_json(unsigned).encode()


def signed_record(record: Mapping[str, JsonValue], signer: bytes, signature: bytes) -> dict[str, JsonValue]:
    """The record with its signature."""
    return {**record, SIGNER: did_key(signer), SIGNATURE: base64.b64encode(signature).decode("ascii")}


def record_signer(dataset: DatasetId, record: Mapping[str, JsonValue]) -> bytes | None:
    """The key that has signed a record; None for one that is not signed.

    Raises ValueError for a signature that is none of it.
    """
    signer, signature = record.get(SIGNER), record.get(SIGNATURE)
    if signer is None and signature is None:
        return None
    try:
        public = parse_did_key(str(signer))
        Ed25519PublicKey.from_public_bytes(public).verify(
            base64.b64decode(str(signature), validate=True), record_to_sign(dataset, record)
        )
    except (InvalidSignature, InvalidName, binascii.Error):
        raise ValueError("the signature of the record is not one of its signer") from None
    return public
