"""Read small files whole, however large they may be."""

from __future__ import annotations

import os
from typing import BinaryIO


def read_at_most(file: BinaryIO, size_max: int) -> bytes:
    """The content of a regular file that is not written any more.

    If it is longer than `size_max` bytes, at least one byte more than that.

    Not `file.read(size_max + 1)`: that makes room for a large piece and gives most of it back, which leaves a mapping of memory of its own
    for each piece. A process may have 65,530 of them on Linux, fewer than a long chain has blocks.
    """
    size = os.fstat(file.fileno()).st_size
    return file.read(min(size, size_max) + 1)
