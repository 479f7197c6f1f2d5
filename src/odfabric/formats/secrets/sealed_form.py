"""The sealed form of secrets at rest: only a holder of the node's key reads them.

Owns the bytes: `ODFSEAL`, version (1 byte), id of the key (8), nonce (12), ChaCha20-Poly1305 of the secret. Associated data is all
that stands before the nonce, and the context, which says what the secret belongs to. Invariant: a secret opens under the key and the
context with which it was sealed, or not at all. The older form of dataset keys, version 1 without the word, is read and never written.
Not here: where keys are kept (`formats.secrets.key_file`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from odfabric.errors import Corrupt

FORM = b"ODFSEAL\x02"
"""What everything sealed begins with."""
KEY_BYTES = 32
KEY_ID_BYTES = 8
NONCE_BYTES = 12
TAG_BYTES = 16
MARK_BYTES = len(FORM) + KEY_ID_BYTES
SEALED_BYTES_MIN = MARK_BYTES + NONCE_BYTES + TAG_BYTES

DATASET_KEY = b"dataset-key:"
"""The context of a dataset's private key is this and its public half in hexadecimal."""
OLD_VERSION = b"\x01"
_OLD_BYTES = 1 + KEY_ID_BYTES + NONCE_BYTES + 32 + TAG_BYTES

FindKey = Callable[[bytes], bytes | None]
"""The key with this id, if it is known."""


def key_id(key: bytes) -> bytes:
    """Which key sealed something."""
    return hashlib.sha3_256(key).digest()[:KEY_ID_BYTES]


def mark_of(key: bytes) -> bytes:
    """What everything begins with that this key sealed."""
    return FORM + key_id(key)


def is_sealed(data: bytes) -> bool:
    """Whether these bytes have the form. Those of the older form have not."""
    return data.startswith(FORM) and len(data) >= SEALED_BYTES_MIN


def seal(key: bytes, secret: bytes, *, context: bytes, nonce: bytes) -> bytes:
    """The sealed form. A nonce is used once."""
    mark = mark_of(key)
    return mark + nonce + ChaCha20Poly1305(key).encrypt(nonce, secret, mark + context)


def open_sealed(sealed: bytes, *, context: bytes, find_key: FindKey) -> bytes:
    """The secret.

    Raises Corrupt for changed bytes, another context, or a key that is not known.
    """
    if is_sealed(sealed):
        mark, rest = sealed[:MARK_BYTES], sealed[MARK_BYTES:]
        return _opened(rest, mark[len(FORM) :], mark + context, context, find_key)
    if sealed.startswith(OLD_VERSION) and len(sealed) == _OLD_BYTES and context.startswith(DATASET_KEY):
        identity, rest = sealed[1 : 1 + KEY_ID_BYTES], sealed[1 + KEY_ID_BYTES :]
        public = bytes.fromhex(context.removeprefix(DATASET_KEY).decode("ascii"))
        return _opened(rest, identity, public, context, find_key)
    raise Corrupt("a secret in the database is not in the form in which secrets are sealed", object_name=_name(context))


def _opened(rest: bytes, identity: bytes, associated: bytes, context: bytes, find_key: FindKey) -> bytes:
    key = find_key(identity)
    if key is None:
        raise Corrupt(
            f"a secret is sealed with key {identity.hex()}, which the node's key file does not have",
            object_name=_name(context),
            hint="all processes of a node share one key file, and a backup of the database needs the key file of its time",
        )
    try:
        return ChaCha20Poly1305(key).decrypt(rest[:NONCE_BYTES], rest[NONCE_BYTES:], associated)
    except InvalidTag:
        raise Corrupt(
            "a secret in the database is damaged, or was moved there from another row", object_name=_name(context)
        ) from None


def _name(context: bytes) -> str:
    return context.decode("utf-8", "backslashreplace")
