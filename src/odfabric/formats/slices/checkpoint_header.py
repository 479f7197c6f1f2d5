"""The head of a checkpoint of our engine: which earlier checkpoints it builds on.

Owns the one thing that a coordinator must know of an engine's state: the names of the other files without which it is not whole.
Invariant: a file of another engine, whose state is its own affair, builds on nothing. Not here: anything else that checkpoints say
(`odfabric_engine_spark.state.checkpoint_file`). Source: docs/engine.md#checkpoints.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path

from odfabric.errors import InvalidData, InvalidName, Place
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.multihash import Multihash

MAGIC = b"ODFCKPT\n"
HEADER_BYTES_MAX = 16 << 20
BASES_MAX = 1024
_LENGTH = struct.Struct("<Q")


def is_own_checkpoint(path: Path) -> bool:
    """Whether a file says that our engine wrote it."""
    with path.open("rb") as file:
        return file.read(len(MAGIC)) == MAGIC


def checkpoint_bases(path: Path) -> tuple[Multihash, ...]:
    """Names of the checkpoints that a file builds on.

    Raises InvalidData if it is one of ours and damaged.
    """
    with path.open("rb") as file:
        if file.read(len(MAGIC)) != MAGIC:
            return ()
        start = file.read(_LENGTH.size)
        length = _LENGTH.unpack(start)[0] if len(start) == _LENGTH.size else HEADER_BYTES_MAX + 1
        text = file.read(length) if length <= HEADER_BYTES_MAX else b""
    try:
        bases = json.loads(text)["bases"]
        if not isinstance(bases, list) or len(bases) > BASES_MAX:
            raise ValueError("bases")
        return tuple(parse_multihash(str(each)) for each in bases)
    except (ValueError, KeyError, TypeError, RecursionError, InvalidName) as error:
        raise InvalidData(
            "the head of the checkpoint cannot be read",
            place=Place(file=path.name, rule="checkpoint-damaged"),
            hint="`odf set-transform --anew` computes the dataset from the beginning",
        ) from error
