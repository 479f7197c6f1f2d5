"""Physical hash: SHA3-256 over a file's bytes, the name of stored objects.

Of those in `data/` and `checkpoints/`.

Owns hashing of paths and streams in constant memory. Source: specification, section "Hashes".
"""

from __future__ import annotations

import hashlib
from io import RawIOBase
from pathlib import Path
from typing import BinaryIO

from odfabric.model.multihash import Multihash, sha3_256_multihash
from odfabric.model.node.remembered import Remembered

READ_BYTES = 1 << 18
"""Bytes read at once, into one buffer that stays in the processor's cache."""


def physical_hash(source: Path | BinaryIO) -> tuple[Multihash, int]:
    """Hash and size in bytes of a file, or of the rest of a binary stream.

    OSError passes through.
    """
    if isinstance(source, Path):
        with source.open("rb", buffering=0) as file:
            return _of_file(file)
    return _of_stream(source)


def physical_hash_of(data: bytes) -> Multihash:
    """Hash of a file's bytes that are in memory; nothing is copied."""
    return sha3_256_multihash(hashlib.sha3_256(data).digest())


class KnownFiles:
    """Files whose hash is known: unchanged in identity, size and time of change.

    A hard link is the same file. The oldest of more than `files_max` are forgotten.
    """

    def __init__(self, files_max: int) -> None:
        self._marks = Remembered[Multihash, tuple[int, ...]](files_max)

    def add(self, name: Multihash, path: Path) -> None:
        """Remembers that the file hashes to `name`."""
        self._marks.put(name, _mark(path))

    def has(self, name: Multihash, path: Path) -> bool:
        """Whether it is known that the file hashes to `name`."""
        return self._marks.get(name) == _mark(path)


def _mark(path: Path) -> tuple[int, ...]:
    stat = path.stat()
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns


def _of_file(file: RawIOBase) -> tuple[Multihash, int]:
    digest, size = hashlib.sha3_256(), 0
    buffer = memoryview(bytearray(READ_BYTES))
    while count := file.readinto(buffer):
        digest.update(buffer[:count])
        size += count
    return sha3_256_multihash(digest.digest()), size


def _of_stream(stream: BinaryIO) -> tuple[Multihash, int]:
    digest, size = hashlib.sha3_256(), 0
    while chunk := stream.read(READ_BYTES):
        digest.update(chunk)
        size += len(chunk)
    return sha3_256_multihash(digest.digest()), size
