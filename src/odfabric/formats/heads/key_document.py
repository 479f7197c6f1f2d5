"""The file of an exported key of a dataset, sealed by a passphrase or plain.

Owns the JSON members, the derivation of a key from a passphrase (scrypt) and the sealing (ChaCha20-Poly1305, the dataset as associated data).
Invariant: a document names its dataset, and opens for no other.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from odfabric.errors import InvalidRequest, Place
from odfabric.formats.json_values.canonical_json import JsonValue, canonical_json, parse_json_object
from odfabric.model.identity import DatasetId

FORMAT = "odfabric dataset key 1"
DOCUMENT_BYTES_MAX = 4096
PASSPHRASE_CHARACTERS_MIN = 8
SALT_BYTES = 16
NONCE_BYTES = 12
PRIVATE_BYTES = 32
SCRYPT_N, SCRYPT_R, SCRYPT_P = 2**15, 8, 1
_SCRYPT_MEMORY_BYTES = 64 * 1024 * 1024


def write_key_document(
    dataset: DatasetId, private: bytes, *, signer: str, passphrase: str | None, salt: bytes, nonce: bytes
) -> bytes:
    """The document; without a passphrase the key is in the clear.

    `salt` and `nonce` are fresh random bytes.

    Raises InvalidRequest for a passphrase that is too short.
    """
    value: dict[str, JsonValue] = {"format": FORMAT, "dataset": str(dataset), "signer": signer}
    if passphrase is None:
        value["private"] = _base64(private)
    else:
        check_passphrase(passphrase)
        sealed = ChaCha20Poly1305(_derived(passphrase, salt)).encrypt(nonce, private, _context(dataset))
        value |= {"kdf": "scrypt", "salt": _base64(salt), "nonce": _base64(nonce), "sealed": _base64(sealed)}
    return canonical_json(value).encode() + b"\n"


def check_passphrase(passphrase: str) -> None:
    """Raise InvalidRequest for a passphrase that is too short."""
    if len(passphrase) < PASSPHRASE_CHARACTERS_MIN:
        raise InvalidRequest(
            f"a passphrase has at least {PASSPHRASE_CHARACTERS_MIN} characters", place=Place(field="passphrase")
        )


def is_sealed_document(data: bytes) -> bool:
    """Whether a passphrase opens it.

    Raises InvalidRequest for what is no such document.
    """
    return "sealed" in _document(data)


def read_key_document(dataset: DatasetId, data: bytes, *, passphrase: str | None) -> bytes:
    """The private key of 32 bytes.

    Raises InvalidRequest for another document, the key of another dataset, a wrong passphrase or none.
    """
    value = _document(data)
    if value.get("dataset") != str(dataset):
        raise InvalidRequest("the key is of another dataset", place=Place(field="dataset"))
    try:
        if "sealed" not in value:
            private = _bytes(value, "private")
        elif passphrase is None:
            raise InvalidRequest("the key is sealed", place=Place(field="passphrase"), hint="give its passphrase")
        else:
            derived = ChaCha20Poly1305(_derived(passphrase, _bytes(value, "salt")))
            private = derived.decrypt(_bytes(value, "nonce"), _bytes(value, "sealed"), _context(dataset))
    except InvalidTag:
        raise InvalidRequest("the passphrase does not open the key", place=Place(field="passphrase")) from None
    except ValueError as error:
        raise InvalidRequest(f"not a key that was exported: {error}") from None
    if len(private) != PRIVATE_BYTES:
        raise InvalidRequest("not a key that was exported")
    return private


def _document(data: bytes) -> dict[str, JsonValue]:
    try:
        value = parse_json_object(data[: DOCUMENT_BYTES_MAX + 1].decode("ascii").strip())
    except (ValueError, json.JSONDecodeError):
        value = {}
    if value.get("format") != FORMAT:
        raise InvalidRequest("not a key that was exported", hint="expected what `odf key export` wrote")
    return value


def _bytes(value: dict[str, JsonValue], name: str) -> bytes:
    found = value.get(name)
    if not isinstance(found, str):
        raise ValueError(f"'{name}' is missing")
    try:
        return base64.b64decode(found, validate=True)
    except binascii.Error:
        raise ValueError(f"'{name}' is not base64") from None


def _derived(passphrase: str, salt: bytes) -> bytes:
    return hashlib.scrypt(
        passphrase.encode(), salt=salt, n=SCRYPT_N, r=SCRYPT_R, p=SCRYPT_P, maxmem=_SCRYPT_MEMORY_BYTES, dklen=32
    )


def _context(dataset: DatasetId) -> bytes:
    return FORMAT.encode() + b"\n" + str(dataset).encode()


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
