"""What the two ends of a Smart transfer say to each other, as values.

Owns the nouns of the conversation; their texts are `odfabric.formats.smart`. Source: RFC-008; RFC-007.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.people.account import Visibility

FRAME_BYTES_MAX = 16 * 1024 * 1024
"""Longest WebSocket frame that peers read; a message may have several."""
MESSAGE_BYTES_MAX = 64 * 1024 * 1024
"""Longest message that peers read."""
PROTOCOL_VERSION = 1
VERSION_HEADER = "x-odf-smtp-version"


class ObjectKind(Enum):
    """DATA_SLICE lies in `data`, CHECKPOINT in `checkpoints`."""

    DATA_SLICE = "DataSlice"
    CHECKPOINT = "Checkpoint"


@dataclass(frozen=True, slots=True)
class ObjectFile:
    """An object that blocks name; `size` in bytes."""

    kind: ObjectKind
    physical_hash: Multihash
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TransferPlan:
    """How much is to be moved. Nothing depends on it but limits and progress bars."""

    num_blocks: int
    num_objects: int
    num_records: int
    bytes_in_raw_blocks: int
    bytes_in_raw_objects: int


@dataclass(frozen=True, slots=True)
class BlocksBatch:
    """Blocks as a tar archive packed with gzip, oldest first.

    `num_blocks` is how many the sender says there are.
    """

    num_blocks: int
    archive: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectUrl:
    """Where an object's bytes are read or written, with the headers to send there."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    expires_at: Instant | None = None


@dataclass(frozen=True, slots=True)
class ObjectDownload:
    """Where an object is read."""

    file: ObjectFile
    source: ObjectUrl


@dataclass(frozen=True, slots=True)
class ObjectUpload:
    """Where an object is written; None if the server has it."""

    file: ObjectFile
    target: ObjectUrl | None


class Phase(Enum):
    """Where a conversation was when it failed: direction and step."""

    PULL_INITIAL = ("Pull", "InitialRequest")
    PULL_METADATA = ("Pull", "MetadataRequest")
    PULL_OBJECTS = ("Pull", "ObjectsRequest")
    PUSH_INITIAL = ("Push", "InitialRequest")
    PUSH_METADATA = ("Push", "MetadataRequest")
    PUSH_TARGET = ("Push", "EnsuringTargetExists")
    PUSH_OBJECTS = ("Push", "ObjectsRequest")
    PUSH_PROGRESS = ("Push", "ObjectsUploadProgress")
    PUSH_COMPLETE = ("Push", "CompleteRequest")


@dataclass(frozen=True, slots=True)
class InvalidInterval:
    """`tail` is not a block of the chain that ends at `head`."""

    head: Multihash
    tail: Multihash


@dataclass(frozen=True, slots=True)
class InvalidHead:
    """The server's head is not the one that the client has said it is.

    On the wire the two names are swapped.
    """

    said: Multihash | None
    servers: Multihash | None


@dataclass(frozen=True, slots=True)
class RefCollision:
    """The server has a dataset of that identity under another name."""

    dataset: DatasetId


@dataclass(frozen=True, slots=True)
class NameCollision:
    """The server has another dataset of that name."""

    alias: str


@dataclass(frozen=True, slots=True)
class SeedOverwriteRestricted:
    """The server's dataset has another identity or kind."""


@dataclass(frozen=True, slots=True)
class InternalFailure:
    """Anything else."""

    phase: Phase
    message: str


Refusal = InvalidInterval | InvalidHead | RefCollision | NameCollision | SeedOverwriteRestricted | InternalFailure


@dataclass(frozen=True, slots=True, kw_only=True)
class PullBegin:
    """The client has the chain up to `begin_after`, and wants it up to `stop_at`.

    `stop_at` None: up to the head.
    """

    begin_after: Multihash | None
    stop_at: Multihash | None = None
    force: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PushBegin:
    """The client has seen the server's head at `current_head`.

    `visibility` is for a dataset that is not there yet.
    """

    current_head: Multihash | None
    plan: TransferPlan
    force: bool = False
    visibility: Visibility = Visibility.PRIVATE


@dataclass(frozen=True, slots=True)
class PushObjects:
    """Objects of the new blocks; `is_truncated`: another such request follows."""

    files: tuple[ObjectFile, ...]
    is_truncated: bool = False


@dataclass(frozen=True, slots=True)
class UploadProgress:
    """How many objects were uploaded so far; None when all are there."""

    uploaded: int | None
