"""Multibase: bytes as text whose first character names the alphabet.

Owns reading of `f`/`F` (hexadecimal), `u` (base64url without padding) and `z` (base58, Bitcoin alphabet), and writing
of `f`, `u`, `z`. Invariant: reading is strict, so bytes have one text per alphabet (hexadecimal: per letter case). Not
here: what the bytes mean (`formats.identifiers.multihash`, `formats.identifiers.did`). Source: multiformats; specification, section "Identity".
"""

from __future__ import annotations

import base64
import re

from odfabric.errors import InvalidName

_ALPHABET_58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_VALUE_58 = {character: value for value, character in enumerate(_ALPHABET_58)}
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2})*", re.ASCII)
_BASE64URL = re.compile(r"[A-Za-z0-9_-]*", re.ASCII)

SHOWN_CHARACTERS_MAX = 200
"""Longest part of a refused text that an error repeats."""


def invalid_value(text: str, type_name: str, *, hint: str | None = None) -> InvalidName:
    """The error for a text that is not a `type_name`, in the specification's words."""
    shown = text if len(text) <= SHOWN_CHARACTERS_MAX else text[:SHOWN_CHARACTERS_MAX] + "..."
    return InvalidName(f"Value '{shown}' is not a valid {type_name}", hint=hint)


def decode_multibase(text: str, *, bytes_max: int) -> bytes:
    """The bytes of a multibase text.

    Raises ValueError with the reason if it is malformed or over `bytes_max` bytes.

    The parsers of what the bytes mean turn that into `invalid_value` with the whole text they were given.
    """
    # No supported alphabet needs more than two characters per byte, and base58 is quadratic: refuse before decoding.
    if len(text) > 1 + 2 * bytes_max:
        raise ValueError(f"at most {bytes_max} bytes are expected")
    data = _decode_digits(text[:1], text[1:])
    if len(data) > bytes_max:
        raise ValueError(f"at most {bytes_max} bytes are expected")
    return data


def encode_base16(data: bytes) -> str:
    """Canonical text of hashes and `did:odf`: `f` and lower-case digits."""
    return "f" + data.hex()


def encode_base64url(data: bytes) -> str:
    """Canonical text of signatures and private keys: `u` and unpadded base64url."""
    return "u" + base64.urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def encode_base58(data: bytes) -> str:
    """Canonical text of `did:key`: `z` and base58 digits."""
    body = data.lstrip(b"\0")
    number, digits = int.from_bytes(body, "big"), ""
    while number:
        number, digit = divmod(number, 58)
        digits = _ALPHABET_58[digit] + digits
    return "z" + "1" * (len(data) - len(body)) + digits


def _decode_digits(prefix: str, digits: str) -> bytes:
    match prefix:
        case "f" | "F":
            if _HEX.fullmatch(digits) is None:
                raise ValueError("malformed base16 digits")
            return bytes.fromhex(digits)
        case "u":
            return _decode_base64url(digits)
        case "z":
            return _decode_base58(digits)
        case "":
            raise ValueError("the text is empty")
        case _:
            raise ValueError(f"unsupported encoding {prefix!r}, expected one of f, F, u, z")


def _decode_base64url(digits: str) -> bytes:
    if _BASE64URL.fullmatch(digits) is None or len(digits) % 4 == 1:
        raise ValueError("malformed base64url digits")
    data = base64.urlsafe_b64decode(digits + "=" * (-len(digits) % 4))
    if encode_base64url(data)[1:] != digits:
        raise ValueError("malformed base64url digits: bits are left over")
    return data


def _decode_base58(digits: str) -> bytes:
    number = 0
    for digit in digits:
        if digit not in _VALUE_58:
            raise ValueError("malformed base58 digits")
        number = number * 58 + _VALUE_58[digit]
    zeros = len(digits) - len(digits.lstrip("1"))
    return b"\0" * zeros + number.to_bytes((number.bit_length() + 7) // 8, "big")
