"""Reading multihashes from text and from the bytes inside blocks.

Owns the checks: a known hash codec, varints in their shortest form, a digest of exactly the declared length and at most
32 bytes. Writing is `Multihash.to_bytes` and `str`. Source: multiformats; specification, "Dataset Identity".
"""

from __future__ import annotations

from odfabric.formats.identifiers.multibase import decode_multibase, invalid_value
from odfabric.model.multihash import ARROW0_SHA3_256, DIGEST_BYTES_MAX, SHA2_256, SHA3_256, Multihash, uvarint

MULTIHASH_BYTES_MAX = 40
_VARINT_BYTES_MAX = 4
_HASH_CODES = frozenset({SHA2_256, SHA3_256, ARROW0_SHA3_256})


def parse_multihash(text: str) -> Multihash:
    """From multibase text in any supported alphabet. Raises InvalidName."""
    try:
        return _read(decode_multibase(text, bytes_max=MULTIHASH_BYTES_MAX))
    except ValueError as error:
        raise invalid_value(text, "Multihash", hint=str(error)) from None


def multihash_from_bytes(data: bytes) -> Multihash:
    """From the binary form: varint code, varint length, digest, nothing after it.

    Raises InvalidName.
    """
    try:
        return _read(data)
    except ValueError as error:
        shown = data[: MULTIHASH_BYTES_MAX + 1].hex()
        raise invalid_value(shown, "Multihash", hint=str(error)) from None


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """The varint at `position` and the position after it.

    Raises ValueError if it is cut, over 4 bytes or not in its shortest form.
    """
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if position + index >= len(data):
            raise ValueError("the varint is cut")
        byte = data[position + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if len(uvarint(value)) != index + 1:
                raise ValueError("the varint is not in its shortest form")
            return value, position + index + 1
    raise ValueError(f"the varint has more than {_VARINT_BYTES_MAX} bytes")


def _read(data: bytes) -> Multihash:
    code, position = read_uvarint(data, 0)
    if code not in _HASH_CODES:
        raise ValueError(f"unknown hash codec {code:#x}")
    size, position = read_uvarint(data, position)
    if size > DIGEST_BYTES_MAX:
        raise ValueError(f"a digest has at most {DIGEST_BYTES_MAX} bytes, {size} are declared")
    if len(data) - position != size:
        raise ValueError(f"{size} digest bytes are declared, {len(data) - position} follow")
    return Multihash(code, bytes(data[position:]))
