"""The current-state index of a dataset as values: its content and progress.

Owns nouns only. An index is derived from a chain: it can be dropped and made again at any time, and nothing is true because an
index says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from odfabric.model.data_schema import DataSchema
from odfabric.model.identity import DatasetId
from odfabric.model.multihash import Multihash
from odfabric.model.offsets import OffsetRange
from odfabric.model.vocabulary import DatasetVocabulary


class IndexMode(Enum):
    """`state`: the net rows of a dataset.

    `keys`: every key that any of its rows ever had.
    """

    STATE = "state"
    KEYS = "keys"


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDefinition:
    """Which index.

    `columns` are those of its rows, all optional; `epoch` changes with everything that makes it another one; further
    columns do not.

    `epoch` is hexadecimal text. `vocabulary` says what offset and op are called in slices.
    """

    dataset: DatasetId
    epoch: str
    mode: IndexMode
    keys: tuple[str, ...]
    columns: DataSchema
    vocabulary: DatasetVocabulary


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexedSlice:
    """A block with data: its number is the time at which its rows enter together."""

    sequence_number: int
    block_hash: Multihash
    physical_hash: Multihash
    offsets: OffsetRange


def continue_at(slices: Sequence[IndexedSlice], next_offset: int) -> bool:
    """Whether data blocks, oldest first, go on from `next_offset` without gaps."""
    for one in slices:
        if one.offsets.begin != next_offset:
            return False
        next_offset = one.offsets.end
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Where a changelog is ill-formed: at this block rows of a key do not follow."""

    sequence_number: int
    block_hash: Multihash
    key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexFrontier:
    """How far an index is.

    All data blocks below number `upper` are in it; states can be read from number `since` on.

    `block_hash` is the last block that it took in (None: none yet) and `next_offset` the record after its last one. `rows` and
    `bytes` are what it keeps by itself, `tail_slices` and `tail_rows` the slices that it only refers to. With a `violation` it
    takes in nothing any more.
    """

    since: int
    upper: int
    block_hash: Multihash | None
    next_offset: int
    rows: int
    bytes: int
    tail_slices: int
    tail_rows: int
    violation: Violation | None = None
