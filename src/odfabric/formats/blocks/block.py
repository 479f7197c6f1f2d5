"""Metadata blocks as stored: envelope, versions, and the hash that names one.

Owns the promise that a block has one encoding: bytes are accepted only if writing the decoded value again, at the version
they declare, gives the same bytes. Blocks received are kept and passed on as the bytes received; what is created here is
always version 3. Not here: whether a chain admits the block (`domain.chain`). Source: specification, "Metadata chain".
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache

from odfabric.errors import InvalidBlock, LimitExceeded
from odfabric.formats.blocks.block_tables import METADATA_BLOCK_KIND, Manifest
from odfabric.formats.blocks.flatbuffer_layout import MOMENT_ALIGNMENT, MOMENT_ALIGNMENT_V2
from odfabric.formats.blocks.flatbuffer_reader import Damaged, FlatBufferReader
from odfabric.formats.blocks.flatbuffer_writer import FlatBufferWriter, Unencodable
from odfabric.model.instant import Instant
from odfabric.model.metadata import MetadataBlock, SetDataSchema
from odfabric.model.multihash import Multihash, sha3_256_multihash

MANIFEST_VERSION = 3
MANIFEST_VERSION_MIN = 2

BLOCK_BYTES_MAX = 16 * 1024 * 1024
BLOCK_DEPTH_MAX = 100
"""Deepest nesting of tables: data types inside data types, for the most part."""


@dataclass(frozen=True, slots=True)
class BlockHeader:
    """What a walk along a chain needs; the event is not decoded.

    `event_type` is its name, e.g. `AddData`.
    """

    system_time: Instant
    prev_block_hash: Multihash | None
    sequence_number: int
    event_type: str
    manifest_version: int


def block_hash(data: bytes) -> Multihash:
    """The name of a block: SHA3-256 of all of its bytes."""
    return sha3_256_multihash(hashlib.sha3_256(data).digest())


def encode_block(block: MetadataBlock) -> bytes:
    """The bytes of a new block, version 3.

    Raises InvalidBlock for a value that has no binary form, LimitExceeded above 16 MiB.
    """
    return encode_block_of_version(block, manifest_version=MANIFEST_VERSION)


def encode_block_of_version(
    block: MetadataBlock, *, manifest_version: int, block_bytes_max: int = BLOCK_BYTES_MAX
) -> bytes:
    """The bytes that a writer of that manifest version made of the block.

    For checking old blocks; new ones are version 3.

    Raises InvalidBlock for a value that has no binary form or another version, LimitExceeded above `block_bytes_max`.
    """
    check_manifest_version(manifest_version)
    try:
        data = _encode(block, manifest_version)
    except Unencodable as error:
        raise InvalidBlock(f"the block has no binary form: {error}", kind="MalformedBlock") from None
    if len(data) > block_bytes_max:
        raise LimitExceeded(f"the block has {len(data)} bytes", limit="block_bytes_max", maximum=block_bytes_max)
    return data


def decode_block(data: bytes, *, block_bytes_max: int = BLOCK_BYTES_MAX) -> MetadataBlock:
    """The value of a stored block of version 2 or 3.

    Raises InvalidBlock for anything but the canonical bytes of a block, kind MalformedBlock, ObsoleteVersion or
    UnsupportedVersion. Takes time and memory proportional to the length.
    """
    try:
        manifest = _read_manifest(data, block_bytes_max)
        block: MetadataBlock = FlatBufferReader(manifest.content, depth_max=BLOCK_DEPTH_MAX).root(MetadataBlock)
        _check_event(block)
        canonical = _encode(block, manifest.version) == data
    except (Damaged, Unencodable) as error:
        raise InvalidBlock(str(error), kind="MalformedBlock") from None
    if not canonical:
        raise InvalidBlock(
            f"the bytes are not the canonical encoding of the block for version {manifest.version}",
            kind="MalformedBlock",
            hint="the block is damaged or its writer does not follow the specification",
        )
    return block


def read_block_header(data: bytes, *, block_bytes_max: int = BLOCK_BYTES_MAX) -> BlockHeader:
    """The header of a stored block whose hash is known to be right.

    That the rest is canonical is not checked.

    Raises InvalidBlock as `decode_block` does.
    """
    try:
        manifest = _read_manifest(data, block_bytes_max)
        fields = FlatBufferReader(manifest.content, depth_max=1).root_header()
    except Damaged as error:
        raise InvalidBlock(str(error), kind="MalformedBlock") from None
    return BlockHeader(
        system_time=fields["system_time"],
        prev_block_hash=fields["prev_block_hash"],
        sequence_number=fields["sequence_number"],
        event_type=fields["event"],
        manifest_version=manifest.version,
    )


def check_manifest_version(version: int) -> None:
    """Raise InvalidBlock for a manifest version that is not read here.

    Kind ObsoleteVersion or UnsupportedVersion.
    """
    if version < MANIFEST_VERSION_MIN:
        raise InvalidBlock(
            f"Obsolete version: manifest has version {version} while minimum supported version is {MANIFEST_VERSION_MIN}",
            kind="ObsoleteVersion",
        )
    if version > MANIFEST_VERSION:
        raise InvalidBlock(
            f"Unsupported version: manifest has version {version} while maximum supported version is {MANIFEST_VERSION}",
            kind="UnsupportedVersion",
            hint="the block was written by a newer version",
        )


def _read_manifest(data: bytes, block_bytes_max: int) -> Manifest:
    if len(data) > block_bytes_max:
        raise Damaged(f"the block has {len(data)} bytes, more than block_bytes_max = {block_bytes_max}")
    manifest: Manifest = FlatBufferReader(data, depth_max=1).root(Manifest)
    if manifest.kind != METADATA_BLOCK_KIND:
        raise Damaged(
            f"the manifest is of kind {manifest.kind:#x}, a metadata block is of kind {METADATA_BLOCK_KIND:#x}"
        )
    check_manifest_version(manifest.version)
    return manifest


def _check_event(block: MetadataBlock) -> None:
    event = block.event
    if isinstance(event, SetDataSchema) and (event.schema is None) == (event.raw_arrow_schema is None):
        raise Damaged("exactly one of schema and raw_arrow_schema must be given", where="SetDataSchema")


def _encode(block: MetadataBlock, manifest_version: int) -> bytes:
    alignment = MOMENT_ALIGNMENT if manifest_version == MANIFEST_VERSION else MOMENT_ALIGNMENT_V2
    content = FlatBufferWriter(depth_max=BLOCK_DEPTH_MAX, moment_alignment=alignment).finish(block)
    size = len(content)
    head = _envelope_head(manifest_version, size % 8)
    return b"".join((head, size.to_bytes(4, "little"), content, bytes(-size % 4)))


@cache
def _envelope_head(manifest_version: int, remainder: int) -> bytes:
    """What stands before the content's length.

    It depends on that length modulo 8 only, so it is written once for each.
    """
    manifest = Manifest(kind=METADATA_BLOCK_KIND, version=manifest_version, content=bytes(remainder))
    sample = FlatBufferWriter(depth_max=1).finish(manifest)
    return sample[: len(sample) - 4 - remainder - (-remainder % 4)]
