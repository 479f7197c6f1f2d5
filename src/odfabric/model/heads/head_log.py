"""Moves of a dataset's head, signed by its key.

Owns the values only; their bytes are in `formats.heads.head_log`, what makes a log a good one in `domain.heads.head_history`.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash
from odfabric.model.rewrite import RewriteKind

CREATED = "created"
"""First entry of a dataset that was signed from its first block on."""
STARTED = "started"
"""First entry of a dataset that is older than its log: it begins at the head of that time."""
APPENDED = "append"
WATERMARK = "watermark"
REPLACED = RewriteKind.REPLACED.value
HANDED_OVER = "handed-over"
"""The head stays; entries that follow are signed by another key."""

FORWARD_KINDS = frozenset({APPENDED, WATERMARK})
"""Kinds of moves whose new head descends from the old one. Unknown kinds promise nothing."""
FIRST_KINDS = frozenset({CREATED, STARTED})

PUSHED_HERE = "a push to this node"
"""The place of a log that its signer has pushed here."""
SEGMENT_ENTRIES = 64
"""Entries of a full segment. The newest segment is `refs/head.log`, older ones are `refs/head.log.<number>`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadMove:
    """One move, before it is signed.

    `sequence` counts from 0. `old_head` is None in the first entry, `previous` (hash of the entry before) too. Keys are 32-byte Ed25519
    public keys; `next_signer` is there exactly in a hand-over. `system_time` is in whole milliseconds.
    """

    sequence: int
    kind: str
    old_head: Multihash | None
    new_head: Multihash
    system_time: Instant
    previous: Multihash | None
    signer: bytes
    next_signer: bytes | None = None

    @property
    def next_key(self) -> bytes:
        """The key that signs the entry after this one."""
        return self.signer if self.next_signer is None else self.next_signer


@dataclass(frozen=True, slots=True)
class SignedMove:
    """An entry of the log: its move, its canonical line without a line end, its hash."""

    move: HeadMove
    line: bytes
    hash: Multihash


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadStatement:
    """What a signer says of a log at a time: its newest entry and the head of that.

    `log` is the hash of entry `sequence`. It is signed again from time to time, so its age bounds for how long an old answer can pass for
    a new one.
    """

    sequence: int
    head: Multihash
    log: Multihash
    signed_at: Instant
    signer: bytes


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """`refs/head.sig`: the statement and its canonical line."""

    statement: HeadStatement
    line: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenHead:
    """The newest that this node has seen of a dataset's log, anywhere.

    `place` is where, a URL without secrets; `seen_at` when; `line` the statement as it was received.
    """

    dataset: DatasetId
    sequence: int
    head: Multihash
    log: Multihash
    signer: bytes
    signed_at: Instant
    seen_at: Instant
    place: str
    line: bytes
