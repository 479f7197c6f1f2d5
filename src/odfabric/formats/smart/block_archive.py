"""Blocks as one archive: tar with GNU headers in gzip.

Blocks are in order, oldest first; entries are named by hash.

Invariant: reading is bounded before anything is unpacked (bytes in all, bytes of a block, count), and what is read hashes to its name.
Writing is deterministic. Source: RFC-007.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from odfabric.errors import InvalidName, InvalidRequest, LimitExceeded, Place
from odfabric.formats.blocks.block import block_hash
from odfabric.formats.smart.json_reader import parse_object_hash
from odfabric.model.multihash import Multihash

_GZIP = 16 + zlib.MAX_WBITS


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveLimits:
    """Most blocks, largest block, and most bytes of an unpacked archive."""

    blocks_max: int
    block_bytes_max: int
    bytes_max: int


def write_archive(blocks: Iterable[tuple[Multihash, bytes]]) -> bytes:
    """Pack blocks in the order given."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as archive:
        for name, data in blocks:
            entry = tarfile.TarInfo(str(name))
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return gzip.compress(packed.getvalue(), mtime=0)


def read_archive(data: bytes, limits: ArchiveLimits) -> list[tuple[Multihash, bytes]]:
    """Blocks in their order, each with the bytes that hash to its name.

    Raises InvalidRequest for what is no such archive, a name that is no hash, a block twice, bytes that hash to something else; LimitExceeded.
    """
    unpacked = _unpacked(data, limits)
    found: dict[Multihash, bytes] = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(unpacked), mode="r:") as archive:
            while (entry := archive.next()) is not None:
                if len(found) >= limits.blocks_max:
                    raise _too_much("the archive has too many blocks", "chain_blocks_max", limits.blocks_max)
                name, block = _entry(archive, entry, limits)
                if name in found:
                    raise _refused(f"block {name} is there twice")
                found[name] = block
                archive.members = []  # type: ignore[attr-defined]  # it would remember them all
    except (tarfile.TarError, ValueError, OSError, EOFError, OverflowError, RecursionError, IndexError, TypeError):
        raise _refused("it is no tar archive") from None
    return list(found.items())


def _unpacked(data: bytes, limits: ArchiveLimits) -> bytes:
    maximum = limits.bytes_max
    decoder = zlib.decompressobj(_GZIP)
    try:
        unpacked = decoder.decompress(data, maximum + 1)
    except zlib.error:
        raise _refused("it is not packed with gzip") from None
    if len(unpacked) > maximum:
        raise _too_much("the unpacked archive is too large", "smart_archive_bytes_max", maximum)
    if not decoder.eof or decoder.unused_data:
        raise _refused("it is cut off, or followed by something else")
    return unpacked


def _entry(archive: tarfile.TarFile, entry: tarfile.TarInfo, limits: ArchiveLimits) -> tuple[Multihash, bytes]:
    if entry.type not in (tarfile.REGTYPE, tarfile.AREGTYPE) or entry.sparse is not None:
        raise _refused("an entry is no plain file")
    try:
        name = parse_object_hash(entry.name)
    except InvalidName:
        raise _refused(f"the name {entry.name[:100]!r} of an entry is no hash") from None
    if entry.size > limits.block_bytes_max:
        raise _too_much(f"block {name} is too large", "block_bytes_max", limits.block_bytes_max)
    stream = archive.extractfile(entry)
    block = b"" if stream is None else stream.read(entry.size)
    if len(block) != entry.size:
        raise _refused(f"block {name} is cut off")
    if block_hash(block) != name:
        raise _refused(f"block {name} does not hash to its name")
    return name, block


def _refused(message: str) -> InvalidRequest:
    return InvalidRequest(f"the archive of blocks is refused: {message}", place=Place(field="payload"))


def _too_much(message: str, limit: str, maximum: int) -> LimitExceeded:
    return LimitExceeded(message, limit=limit, maximum=maximum, place=Place(field="payload"))
