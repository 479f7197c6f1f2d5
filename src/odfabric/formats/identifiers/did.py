"""Decentralised identifiers: `did:odf`, `did:key` and `did:pkh`.

Owns their texts and bytes. `did:odf` and `did:key` are two spellings of one Ed25519 public key; any supported multibase
is read after either prefix, the canonical one is written. A key need not be a curve point here: only checking a
signature asks for that. Source: specification, section "Identity"; CAIP-10 for `did:pkh`.
"""

from __future__ import annotations

import re

from odfabric.formats.identifiers.multibase import decode_multibase, encode_base58, invalid_value
from odfabric.model.identity import ED25519_PUB, AccountId, DatasetId, KeyAccountId, WalletAccountId

DID_KEY_BYTES_MAX = 36
PUBLIC_KEY_BYTES = 32

_ODF = "did:odf:"
_KEY = "did:key:"
_PKH = "did:pkh:"
_CAIP_10 = re.compile(r"([-a-z0-9]{3,8}):([-_a-zA-Z0-9]{1,32}):([-.%a-zA-Z0-9]{1,64})", re.ASCII)


def parse_dataset_id(text: str) -> DatasetId:
    """From `did:odf:<multibase>`. Raises InvalidName."""
    return DatasetId(_parse_key(text, prefix=_ODF, type_name="DatasetID"))


def dataset_id_from_bytes(data: bytes) -> DatasetId:
    """From the 34 bytes that blocks carry: `ed 01` and the key. Raises InvalidName."""
    return DatasetId(_key_of(bytes(data), shown=data[: DID_KEY_BYTES_MAX + 1].hex(), type_name="DatasetID"))


def parse_account_id(text: str) -> AccountId:
    """From `did:odf:<multibase>` or `did:pkh:<namespace>:<reference>:<address>`.

    Raises InvalidName.
    """
    if not text.startswith(_PKH):
        return KeyAccountId(_parse_key(text, prefix=_ODF, type_name="AccountID"))
    match = _CAIP_10.fullmatch(text, len(_PKH))
    if match is None:
        raise invalid_value(text, "AccountID", hint="expected did:pkh:<namespace>:<reference>:<address> of CAIP-10")
    return WalletAccountId(namespace=match[1], reference=match[2], address=match[3])


def parse_did_key(text: str) -> bytes:
    """The 32-byte Ed25519 public key of a `did:key:<multibase>`. Raises InvalidName."""
    return _parse_key(text, prefix=_KEY, type_name="DidKey")


def did_key(public_key: bytes) -> str:
    """Canonical `did:key:z...` of a 32-byte Ed25519 public key.

    Raises ValueError for another length.
    """
    if len(public_key) != PUBLIC_KEY_BYTES:
        raise ValueError(f"an Ed25519 public key has {PUBLIC_KEY_BYTES} bytes, not {len(public_key)}")
    return _KEY + encode_base58(ED25519_PUB + public_key)


def _parse_key(text: str, *, prefix: str, type_name: str) -> bytes:
    if not text.startswith(prefix):
        raise invalid_value(text, type_name, hint=f"expected {prefix}<multibase>")
    try:
        data = decode_multibase(text[len(prefix) :], bytes_max=DID_KEY_BYTES_MAX)
    except ValueError as error:
        raise invalid_value(text, type_name, hint=str(error)) from None
    return _key_of(data, shown=text, type_name=type_name)


def _key_of(data: bytes, *, shown: str, type_name: str) -> bytes:
    if data[:2] != ED25519_PUB:
        raise invalid_value(shown, type_name, hint="only Ed25519 public keys (codec 0xed) are supported")
    if len(data) != len(ED25519_PUB) + PUBLIC_KEY_BYTES:
        raise invalid_value(shown, type_name, hint=f"a key has {PUBLIC_KEY_BYTES} bytes, {len(data) - 2} are given")
    return data[2:]
