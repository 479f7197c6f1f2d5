"""Physical hash: SHA3-256 over all bytes of a file, the name of objects in `data/` and `checkpoints/`.

Owns hashing of paths and streams in constant memory. Source: specification, section "Hashes".
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import BinaryIO

from odfabric.model.multihash import Multihash, sha3_256_multihash

READ_BYTES = 1 << 20


def physical_hash(source: Path | BinaryIO) -> tuple[Multihash, int]:
    """Hash and size in bytes of a file, or of a binary stream from where it stands to its end. OSError passes through."""
    if isinstance(source, Path):
        with source.open("rb", buffering=0) as stream:
            return _of_stream(stream)
    return _of_stream(source)


def _of_stream(stream: BinaryIO) -> tuple[Multihash, int]:
    digest, size = hashlib.sha3_256(), 0
    while chunk := stream.read(READ_BYTES):
        digest.update(chunk)
        size += len(chunk)
    return sha3_256_multihash(digest.digest()), size
