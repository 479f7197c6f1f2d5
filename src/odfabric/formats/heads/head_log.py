"""Bytes of signed heads: `refs/head.log` and `refs/head.sig`.

Owns the one spelling of an entry and of a statement, and which bytes are signed. An entry is a line of canonical JSON: sorted members, no
spaces. Its signature is Ed25519 over a domain, the id of the dataset, and the line without the signature; its hash is SHA3-256 over the
whole line. Invariant: a line is read only if writing what was read gives the same bytes. Source: ADR 0072.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from odfabric.errors import CorruptedSource, InvalidName, Place
from odfabric.formats.identifiers.did import did_key, parse_did_key
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.formats.json_values.canonical_json import JsonValue, canonical_json, parse_json_object
from odfabric.model.heads.head_log import (
    HANDED_OVER,
    SEGMENT_ENTRIES,
    HeadMove,
    HeadStatement,
    SignedMove,
    SignedStatement,
)
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash, sha3_256_multihash

LINE_BYTES_MAX = 1000
"""Bytes of an entry or a statement without its line end."""
SEGMENT_BYTES_MAX = SEGMENT_ENTRIES * (LINE_BYTES_MAX + 1)
SIGNATURE_BYTES = 64
SEQUENCE_MAX = 2**53 - 1
ENTRY_DOMAIN = b"odfabric head log 1\n"
STATEMENT_DOMAIN = b"odfabric head 1\n"

RULE_TAMPERED = "head-log-tampered"
RULE_SIGNER = "head-log-signer"

_KIND = re.compile(r"[a-z][a-z0-9-]{0,39}", re.ASCII)
_ENTRY_MEMBERS = frozenset(
    {"kind", "newHead", "oldHead", "previous", "sequence", "signature", "signer", "systemTime", "nextSigner"}
)
_STATEMENT_MEMBERS = frozenset({"head", "log", "sequence", "signature", "signedAt", "signer"})


def entry_to_sign(dataset: DatasetId, move: HeadMove) -> bytes:
    """The bytes of an entry that its signer signs."""
    return _to_sign(ENTRY_DOMAIN, dataset, _entry_value(move))


def signed_move(move: HeadMove, signature: bytes) -> SignedMove:
    """The entry with its signature."""
    line = _line(_entry_value(move), signature)
    return SignedMove(move, line, line_hash(line))


def read_move(dataset: DatasetId, line: bytes) -> SignedMove:
    """An entry from its line, its signature checked by the signer that it names.

    Raises CorruptedSource by rule `head-log-tampered`. Whether the signer may sign is not judged.
    """
    value = _value(line, _ENTRY_MEMBERS, "an entry of the head log")
    try:
        following = value.get("nextSigner")
        move = HeadMove(
            sequence=_sequence(value),
            kind=_kind(_text(value, "kind")),
            old_head=_optional_hash(value, "oldHead"),
            new_head=parse_multihash(_text(value, "newHead")),
            system_time=Instant.parse(_text(value, "systemTime")),
            previous=_optional_hash(value, "previous"),
            signer=parse_did_key(_text(value, "signer")),
            next_signer=None if following is None else parse_did_key(_text(value, "nextSigner")),
        )
    except (ValueError, InvalidName) as error:
        raise tampered(f"an entry of the head log cannot be read: {error}") from None
    if (move.next_signer is not None) != (move.kind == HANDED_OVER):
        raise tampered(f"entry {move.sequence} of the head log names a next signer without handing over, or none")
    signature = _signature(value)
    if _line(_entry_value(move), signature) != line:
        raise tampered(f"entry {move.sequence} of the head log is not in its canonical form")
    _check_signature(move.signer, signature, entry_to_sign(dataset, move), f"entry {move.sequence} of the head log")
    return SignedMove(move, line, line_hash(line))


def statement_to_sign(dataset: DatasetId, statement: HeadStatement) -> bytes:
    """The bytes of a statement that its signer signs."""
    return _to_sign(STATEMENT_DOMAIN, dataset, _statement_value(statement))


def signed_statement(statement: HeadStatement, signature: bytes) -> SignedStatement:
    """The statement with its signature."""
    return SignedStatement(statement, _line(_statement_value(statement), signature))


def read_statement(dataset: DatasetId, line: bytes) -> SignedStatement:
    """A statement from its line, its signature checked by the signer that it names.

    Raises CorruptedSource by rule `head-log-tampered`.
    """
    value = _value(line, _STATEMENT_MEMBERS, "the signature of the head")
    try:
        statement = HeadStatement(
            sequence=_sequence(value),
            head=parse_multihash(_text(value, "head")),
            log=parse_multihash(_text(value, "log")),
            signed_at=Instant.parse(_text(value, "signedAt")),
            signer=parse_did_key(_text(value, "signer")),
        )
    except (ValueError, InvalidName) as error:
        raise tampered(f"the signature of the head cannot be read: {error}") from None
    signature = _signature(value)
    if _line(_statement_value(statement), signature) != line:
        raise tampered("the signature of the head is not in its canonical form")
    _check_signature(statement.signer, signature, statement_to_sign(dataset, statement), "the signature of the head")
    return SignedStatement(statement, line)


def segment_text(lines: Sequence[bytes]) -> bytes:
    """A segment of the log: its lines, each with a line end."""
    return b"".join(line + b"\n" for line in lines)


def segment_lines(data: bytes) -> list[bytes]:
    """The lines of a segment.

    Raises CorruptedSource for a cut one, and for one that is empty or too long.
    """
    if not data.endswith(b"\n"):
        raise tampered("a segment of the head log is cut off")
    lines = data[:-1].split(b"\n")
    if len(lines) > SEGMENT_ENTRIES:
        raise tampered(f"a segment of the head log has more than {SEGMENT_ENTRIES} entries")
    return lines


def line_hash(line: bytes) -> Multihash:
    """What an entry is known by in the entry after it."""
    return sha3_256_multihash(hashlib.sha3_256(line).digest())


def shown_key(public: bytes) -> str:
    """A key as people see it."""
    return did_key(public)


def tampered(message: str, *, rule: str = RULE_TAMPERED) -> CorruptedSource:
    """The refusal of a log that its signer did not write."""
    return CorruptedSource(
        message,
        place=Place(rule=rule),
        hint="take the dataset from another place; what was signed is not what is there",
    )


def _entry_value(move: HeadMove) -> dict[str, JsonValue]:
    value: dict[str, JsonValue] = {
        "kind": move.kind,
        "newHead": str(move.new_head),
        "oldHead": None if move.old_head is None else str(move.old_head),
        "previous": None if move.previous is None else str(move.previous),
        "sequence": move.sequence,
        "signer": did_key(move.signer),
        "systemTime": str(move.system_time),
    }
    if move.next_signer is not None:
        value["nextSigner"] = did_key(move.next_signer)
    return value


def _statement_value(statement: HeadStatement) -> dict[str, JsonValue]:
    return {
        "head": str(statement.head),
        "log": str(statement.log),
        "sequence": statement.sequence,
        "signedAt": str(statement.signed_at),
        "signer": did_key(statement.signer),
    }


def _to_sign(domain: bytes, dataset: DatasetId, value: dict[str, JsonValue]) -> bytes:
    return domain + str(dataset).encode("ascii") + b"\n" + canonical_json(value).encode()


def _line(value: dict[str, JsonValue], signature: bytes) -> bytes:
    return canonical_json({**value, "signature": base64.urlsafe_b64encode(signature).decode("ascii")}).encode()


def _value(line: bytes, members: frozenset[str], what: str) -> Mapping[str, JsonValue]:
    if len(line) > LINE_BYTES_MAX:
        raise tampered(f"{what} has more than {LINE_BYTES_MAX} bytes")
    try:
        value = parse_json_object(line.decode("ascii"))
    except ValueError as error:
        raise tampered(f"{what} cannot be read: {error}") from None
    if not value.keys() <= members:
        raise tampered(f"{what} has members that are not known: {', '.join(sorted(value.keys() - members))[:100]}")
    return value


def _text(value: Mapping[str, JsonValue], name: str) -> str:
    found = value.get(name)
    if not isinstance(found, str):
        raise ValueError(f"'{name}' is not a text")
    return found


def _sequence(value: Mapping[str, JsonValue]) -> int:
    found = value.get("sequence")
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= SEQUENCE_MAX:
        raise ValueError("'sequence' is no number of an entry")
    return found


def _kind(text: str) -> str:
    if _KIND.fullmatch(text) is None:
        raise ValueError("'kind' is not a kind of move")
    return text


def _optional_hash(value: Mapping[str, JsonValue], name: str) -> Multihash | None:
    return None if value.get(name) is None else parse_multihash(_text(value, name))


def _signature(value: Mapping[str, JsonValue]) -> bytes:
    try:
        signature = base64.b64decode(_text(value, "signature"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error):
        raise tampered("a signature of the head log cannot be read") from None
    if len(signature) != SIGNATURE_BYTES:
        raise tampered(f"a signature of the head log has {len(signature)} bytes")
    return signature


@lru_cache(maxsize=256)
def _public_key(public: bytes) -> Ed25519PublicKey:
    return Ed25519PublicKey.from_public_bytes(public)


def _check_signature(public: bytes, signature: bytes, data: bytes, what: str) -> None:
    try:
        _public_key(public).verify(signature, data)
    except (InvalidSignature, ValueError):
        raise tampered(f"{what} does not carry a signature of its signer") from None
