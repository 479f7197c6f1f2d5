"""Which engine made or reproduces which block, recorded beside the derivative.

Blocks carry no engine, so the objects of a dataset have an area for that: one small JSON document for each block, engine and outcome. A
transaction's record is stored before its block is committed, so whatever is in the chain has one. Invariants: a record is written once
and says the same no matter who writes it again; where the key of the dataset is here it signs the record, and a signature that is wrong is
found where it is read. Nothing in the chain depends on a record, and none excuses a replay that differs. Not here: replaying
(`usecases.verification.replay_transactions`). Source: docs/engine.md#operations.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum

from odfabric.errors import Corrupt
from odfabric.formats.heads.signed_record import record_signer, record_to_sign, signed_record
from odfabric.formats.identifiers.dataset_layout import engine_records_prefix
from odfabric.formats.json_values.canonical_json import JsonValue
from odfabric.model.commit import EncodedBlock
from odfabric.model.engine import EngineIdentity
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.metadata import ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.ports.datasets.object_store import ObjectStore

RECORD_BYTES_MAX = 64 * 1024
SHOWN_CHARACTERS_MAX = 200
"""Of what a record says; who wrote it may have been anybody."""
ENGINE_DIGITS = 32
"""Length of what distinguishes engines in keys, in hexadecimal digits."""


SignRecord = Callable[[DatasetId, bytes], tuple[bytes, bytes] | None]
"""Signs bytes with the key of a dataset: public half and signature; None if the key is not here."""


def unsigned(dataset: DatasetId, data: bytes) -> None:
    """No key is here."""


class EngineOutcome(Enum):
    """An engine and a block: it made its rows, reproduced them, or gave others."""

    MADE = "made"
    REPRODUCES = "reproduces"
    DIFFERS = "differs"


def record_maker(
    dataset: DatasetId,
    blocks: Sequence[EncodedBlock],
    engine: EngineIdentity | None,
    *,
    objects: ObjectStore,
    sign: SignRecord = unsigned,
) -> None:
    """Say of blocks that are about to be committed who made their rows.

    Nothing is said of an engine that does not say who it is.
    """
    for one in blocks:
        if engine is not None and isinstance(one.block.event, ExecuteTransform):
            record(dataset, one.hash, engine, EngineOutcome.MADE, objects=objects, sign=sign)


def record(
    dataset: DatasetId,
    block: Multihash,
    engine: EngineIdentity,
    outcome: EngineOutcome,
    *,
    objects: ObjectStore,
    message: str | None = None,
    at: Instant | None = None,
    sign: SignRecord = unsigned,
) -> None:
    """Keep what an engine has to do with a block.

    What was recorded of both stays as it is.
    """
    value: dict[str, JsonValue] = {
        "block": str(block),
        "engine": engine.name,
        "version": engine.version,
        "digest": engine.digest,
        "outcome": outcome.value,
    }
    if message is not None:
        value["message"] = message
    if at is not None:
        value["recordedAt"] = str(at.truncated_to_millis())
    # What an engine says of itself is no part of a key as it is.
    said = hashlib.sha3_256(f"{engine.name}\0{engine.version}\0{engine.digest}".encode()).hexdigest()[:ENGINE_DIGITS]
    key = f"{engine_records_prefix(dataset, block)}{said}/{outcome.value}"
    found = sign(dataset, record_to_sign(dataset, value))
    signed = value if found is None else signed_record(value, *found)
    objects.put_bytes(key, json.dumps(signed, sort_keys=True).encode())


def engine_records(
    dataset: DatasetId, *, objects: ObjectStore, block: Multihash | None = None
) -> Iterator[Mapping[str, object]]:
    """All that is recorded beside a dataset, or of one block of it, by block.

    Raises Corrupt for a record that is none, or whose signature is not one of its signer.
    """
    return (value for value, _ in signed_engine_records(dataset, objects=objects, block=block))


def signed_engine_records(
    dataset: DatasetId, *, objects: ObjectStore, block: Multihash | None = None
) -> Iterator[tuple[Mapping[str, object], bytes | None]]:
    """The same, each with the key that signed it, None for none. Raises Corrupt.

    Whether that key is one of the dataset's is for the caller to judge.
    """
    for key in objects.keys(engine_records_prefix(dataset, block)):
        signer = None
        try:
            value = json.loads(objects.read_bytes(key, size_max=RECORD_BYTES_MAX))
            if isinstance(value, dict):
                signer = record_signer(dataset, value)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            raise Corrupt("a record of an engine cannot be read", object_name=key)
        yield value, signer


def makers(dataset: DatasetId, block: Multihash, *, objects: ObjectStore) -> list[EngineIdentity]:
    """The engines that are recorded as those which made a block.

    More than one only if it was made again. Raises Corrupt.
    """

    def text(found: Mapping[str, object], name: str) -> str:
        return str(found.get(name, ""))[:SHOWN_CHARACTERS_MAX]

    return [
        EngineIdentity(name=text(one, "engine"), version=text(one, "version"), digest=text(one, "digest"))
        for one in engine_records(dataset, objects=objects, block=block)
        if one.get("outcome") == EngineOutcome.MADE.value
    ]
