"""Texts of access tokens: kind, id, secret and a checksum.

Owns two forms. Tokens of this node have 80 characters: `odf_pat_`, `odf_svc_` or `odf_ses_`, 22 of base62 (id, 16 bytes), `_`, 43 of
base62 (secret, 32 bytes), 6 of base62 (CRC-32 of all before them); numbers are big-endian with leading zeros. Tokens of the reference
have 61: `ka_` and 58 of Crockford's base32 (id of 16 bytes, secret of 16, CRC-32 of the secret). Invariants: a token has one text only;
no error repeats a token. The checksum finds mistakes, it proves nothing: the caller compares hashes by `hmac.compare_digest`.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from typing import NoReturn
from zlib import crc32

from odfabric.errors import TokenChecksumWrong, TokenMalformed
from odfabric.model.people.credential import TokenKind

ID_BYTES = 16
SECRET_BYTES = 32
REFERENCE_SECRET_BYTES = 16

SECRET_PATTERN = r"\bodf_(?:pat|svc|ses)_[0-9A-Za-z]{22}_[0-9A-Za-z]{49}\b"
"""Finds tokens of this node in other texts, for scanners of secrets; a hit is one if `parse` takes it."""

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_ID_CHARACTERS = 22
_SECRET_CHARACTERS = 43
_CRC_CHARACTERS = 6
_CRC_BYTES = 4
_REFERENCE_PREFIX = f"{TokenKind.REFERENCE.value}_"
_REFERENCE_BYTES = ID_BYTES + REFERENCE_SECRET_BYTES + _CRC_BYTES
_REFERENCE_CHARACTERS = 58
_REFERENCE_SPARE_BITS = 5 * _REFERENCE_CHARACTERS - 8 * _REFERENCE_BYTES

_OWN = re.compile(
    rf"odf_(pat|svc|ses)_([{_BASE62}]{{{_ID_CHARACTERS}}})_([{_BASE62}]{{{_SECRET_CHARACTERS}}})([{_BASE62}]{{{_CRC_CHARACTERS}}})"
)
_REFERENCE = re.compile(rf"{_REFERENCE_PREFIX}([{_CROCKFORD}]{{{_REFERENCE_CHARACTERS}}})")
_COPY = "copy the whole token, without spaces or quotes around it; if it is lost, make a new one"
_FORMS = "a token is `odf_pat_`, `odf_svc_` or `odf_ses_` and 72 more characters, or `ka_` and 58"


@dataclass(frozen=True, slots=True)
class TokenText:
    """What a token says.

    `id` is the hexadecimal text of its 16 bytes, as the database keeps it.
    """

    kind: TokenKind
    id: str
    secret: bytes = field(repr=False)


def make(kind: TokenKind, id_bytes: bytes, secret_bytes: bytes) -> str:
    """The text of a token. Raises ValueError for an id or secret of the wrong length."""
    if len(id_bytes) != ID_BYTES or len(secret_bytes) != secret_bytes_of(kind):
        raise ValueError(f"a token has {ID_BYTES} bytes of id and {secret_bytes_of(kind)} of secret")
    if kind is TokenKind.REFERENCE:
        return _REFERENCE_PREFIX + _to_crockford(id_bytes + secret_bytes + _crc_bytes(secret_bytes))
    body = f"odf_{kind.value}_{_to_base62(id_bytes, _ID_CHARACTERS)}_{_to_base62(secret_bytes, _SECRET_CHARACTERS)}"
    return body + _to_base62(_crc_bytes(body.encode("ascii")), _CRC_CHARACTERS)


def parse(text: str) -> TokenText:
    """The parts of a token.

    Raises TokenMalformed for what has another form, TokenChecksumWrong for a mistyped one.
    """
    if text.startswith(_REFERENCE_PREFIX):
        return _parse_reference(text)
    parts = _OWN.fullmatch(text)
    if parts is None:
        _refuse_form(text)
    if _from_base62(parts[4]) != crc32(text[:-_CRC_CHARACTERS].encode("ascii")):
        raise _wrong_checksum()
    id_number, secret_number = _from_base62(parts[2]), _from_base62(parts[3])
    if id_number >> 8 * ID_BYTES or secret_number >> 8 * SECRET_BYTES:
        raise TokenMalformed("the token has numbers that no token has", hint=_COPY)
    return TokenText(TokenKind(parts[1]), id_number.to_bytes(ID_BYTES).hex(), secret_number.to_bytes(SECRET_BYTES))


def secret_hash(secret: bytes) -> bytes:
    """What is stored of a secret: SHA-256.

    Secrets are random numbers that nobody can guess, so it need not be slow.
    """
    return hashlib.sha256(secret).digest()


def secret_bytes_of(kind: TokenKind) -> int:
    """How many bytes a secret of this kind has."""
    return REFERENCE_SECRET_BYTES if kind is TokenKind.REFERENCE else SECRET_BYTES


def _parse_reference(text: str) -> TokenText:
    parts = _REFERENCE.fullmatch(text)
    if parts is None:
        _refuse_form(text)
    number = 0
    for sign in parts[1]:
        number = number << 5 | _CROCKFORD.index(sign)
    if number & ((1 << _REFERENCE_SPARE_BITS) - 1):
        raise TokenMalformed("the last character of the token cannot end one", hint=_COPY)
    data = (number >> _REFERENCE_SPARE_BITS).to_bytes(_REFERENCE_BYTES)
    secret = data[ID_BYTES:-_CRC_BYTES]
    if _crc_bytes(secret) != data[-_CRC_BYTES:]:
        raise _wrong_checksum()
    return TokenText(TokenKind.REFERENCE, data[:ID_BYTES].hex(), secret)


def _refuse_form(text: str) -> NoReturn:
    # Only what it lacks is reported: what was sent may be a token with a slip in it, or another secret.
    if text.startswith(("odf_", _REFERENCE_PREFIX)):
        raise TokenMalformed("the token is cut off, too long or has characters that no token has", hint=_COPY)
    raise TokenMalformed("this is not an access token", hint=_FORMS)


def _wrong_checksum() -> TokenChecksumWrong:
    return TokenChecksumWrong("the token was mistyped or changed: its checksum does not fit", hint=_COPY)


def _crc_bytes(data: bytes) -> bytes:
    return crc32(data).to_bytes(_CRC_BYTES)


def _to_base62(data: bytes, characters: int) -> str:
    number, signs = int.from_bytes(data), ""
    for _ in range(characters):
        number, digit = divmod(number, 62)
        signs = _BASE62[digit] + signs
    return signs


def _from_base62(text: str) -> int:
    number = 0
    for sign in text:
        number = 62 * number + _BASE62.index(sign)
    return number


def _to_crockford(data: bytes) -> str:
    number = int.from_bytes(data) << _REFERENCE_SPARE_BITS
    return "".join(_CROCKFORD[number >> 5 * place & 31] for place in reversed(range(_REFERENCE_CHARACTERS)))
