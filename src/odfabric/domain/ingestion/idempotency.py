"""Idempotency keys sealed in the chain.

Owns the hashes of keys and their form inside AddData: `extra` holds the list of (key hash, body digest), the source state
holds the digest of that list, so the proof that a push was committed is the block itself and the records can be rebuilt from
the chain alone. Keys are hashed together with account and route because chains are public. Not here: the records' table
(`ports.datasets.chain_reader`) and what a repeated key is answered (`usecases.ingestion.push_data`).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from odfabric.domain.chain.block_attributes import attributes_of
from odfabric.model.commit import IdempotencyRecord
from odfabric.model.data_schema import ExtraAttributes
from odfabric.model.metadata import AddData, MetadataBlock, SourceState
from odfabric.model.multihash import Multihash, sha3_256_multihash

STATE_KIND = "odfabric/idempotency"
ATTRIBUTE = "odfabric.dev/idempotency"
DIGEST_BYTES = 32

_HEX_DIGEST = re.compile(r"[0-9a-f]{64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class IdempotencyEntry:
    """One keyed push: SHA3-256 of (account, route, key) and of the body, 32 bytes."""

    key_hash: bytes
    body_digest: bytes

    def __post_init__(self) -> None:
        if len(self.key_hash) != DIGEST_BYTES or len(self.body_digest) != DIGEST_BYTES:
            raise ValueError(f"digests have {DIGEST_BYTES} bytes")


def idempotency_key_hash(*, account: str, route: str, key: str) -> bytes:
    """SHA3-256 over the three texts, each after its length (bytes, u64 little-endian)."""
    digest = hashlib.sha3_256()
    for part in (account, route, key):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "little"))
        digest.update(encoded)
    return digest.digest()


def entries_digest(entries: Sequence[IdempotencyEntry]) -> Multihash:
    """SHA3-256 over the entries in order, 64 bytes each."""
    digest = hashlib.sha3_256()
    for entry in entries:
        digest.update(entry.key_hash)
        digest.update(entry.body_digest)
    return sha3_256_multihash(digest.digest())


def sealed_state(entries: Sequence[IdempotencyEntry], *, source_name: str) -> SourceState:
    """The source state of a block that commits keyed pushes."""
    return SourceState(source_name=source_name, kind=STATE_KIND, value=str(entries_digest(entries)))


def sealed_attributes(entries: Sequence[IdempotencyEntry]) -> dict[str, object]:
    """The attributes of a block that commits keyed pushes; none without keys."""
    listed = [{"body": entry.body_digest.hex(), "key": entry.key_hash.hex()} for entry in entries]
    return {ATTRIBUTE: listed} if listed else {}


def idempotency_records(block_hash: Multihash, block: MetadataBlock) -> tuple[IdempotencyRecord, ...]:
    """The keys that a block has sealed; empty for any other block.

    A list that the block's source state does not seal is not ours and counts as none: chains of others may hold anything.
    """
    event = block.event
    if not isinstance(event, AddData) or event.extra is None or event.new_source_state is None:
        return ()
    entries = _parse_entries(event.extra)
    state = event.new_source_state
    if not entries or state.kind != STATE_KIND or state.value != str(entries_digest(entries)):
        return ()
    return tuple(IdempotencyRecord(entry.key_hash, entry.body_digest, block_hash) for entry in entries)


def _parse_entries(extra: ExtraAttributes) -> list[IdempotencyEntry]:
    listed = attributes_of(extra).get(ATTRIBUTE)
    if not isinstance(listed, list):
        return []
    entries: list[IdempotencyEntry] = []
    for item in listed:
        match item:
            case {"key": str(key), "body": str(body)} if _HEX_DIGEST.fullmatch(key) and _HEX_DIGEST.fullmatch(body):
                entries.append(IdempotencyEntry(bytes.fromhex(key), bytes.fromhex(body)))
            case _:
                return []
    return entries
