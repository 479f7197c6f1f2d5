"""The file with the node's keys: the first one seals, all of them open.

Owns the bytes. One key is its 32 bytes and nothing else, as in all releases. Several, which is so while a key is rotated, are `ODFKEYS`,
version (1 byte), the keys, and the SHA3-256 of all that. Invariant: a file that was cut or changed is not read as another one.
"""

from __future__ import annotations

import hashlib

from odfabric.errors import Corrupt
from odfabric.formats.secrets.sealed_form import KEY_BYTES

SEVERAL = b"ODFKEYS\x01"
KEYS_MAX = 16
_DIGEST_BYTES = 32
KEY_FILE_BYTES_MAX = len(SEVERAL) + KEYS_MAX * KEY_BYTES + _DIGEST_BYTES


def encode_keys(keys: tuple[bytes, ...]) -> bytes:
    """The bytes of a key file, the current key first.

    Raises ValueError for no key, too many keys, or a key of another length.
    """
    if not 0 < len(keys) <= KEYS_MAX or any(len(key) != KEY_BYTES for key in keys):
        raise ValueError(f"a key file has 1 to {KEYS_MAX} keys of {KEY_BYTES} bytes")
    if len(keys) == 1:
        return keys[0]
    body = SEVERAL + b"".join(keys)
    return body + hashlib.sha3_256(body).digest()


def decode_keys(data: bytes, *, name: str) -> tuple[bytes, ...]:
    """The keys of the file called `name`. Raises Corrupt."""
    if len(data) == KEY_BYTES:
        return (data,)
    body, digest = data[:-_DIGEST_BYTES], data[-_DIGEST_BYTES:]
    count, odd = divmod(len(body) - len(SEVERAL), KEY_BYTES)
    fits = body.startswith(SEVERAL) and not odd and 1 < count <= KEYS_MAX
    if not fits or hashlib.sha3_256(body).digest() != digest:
        raise Corrupt("the key file is damaged", object_name=name, hint="restore it from the backup")
    keys = body[len(SEVERAL) :]
    return tuple(keys[start : start + KEY_BYTES] for start in range(0, len(keys), KEY_BYTES))
