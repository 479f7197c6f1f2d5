"""Reset a dataset: its head goes back to one of its earlier blocks.

Invariants: anyone who resets names the head that they saw, and a head that has moved since stays (compare-and-set); the blocks above are out of
the chain at once, and their objects stay for the collector's lifetime. Consumers get a `reset` event, derivatives are marked, the audit
names who did it. Source: ADR 0073.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.people.access import Action, Subject
from odfabric.errors import HeadMoved
from odfabric.model.commit import CatalogEntry
from odfabric.model.multihash import Multihash
from odfabric.model.rewrite import RewriteKind
from odfabric.usecases.chain.block_reference import named_block
from odfabric.usecases.chain.commit import Commits
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.rights.access import Access


@dataclass(frozen=True, slots=True, kw_only=True)
class ResetDone:
    """How far a head went back: blocks and rows that are out of the chain."""

    entry: CatalogEntry
    old_head: Multihash
    head: Multihash
    blocks: int
    rows: int

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {
            "id": str(self.entry.id),
            "alias": str(self.entry.alias),
            "oldHead": str(self.old_head),
            "head": str(self.head),
            "blocksDropped": self.blocks,
            "rowsDropped": self.rows,
        }


def plan_reset(
    entry: CatalogEntry, to: Multihash | int, *, expected: Multihash | None = None, repository: Repository
) -> ResetDone:
    """What a reset to a block, or to the block with a sequence number, would drop.

    `expected` is the head that was seen. Raises HeadMoved if it has moved, NotFound for a block that is not in the chain.
    """
    head = repository.head(entry.id)
    if expected is not None and head.hash != expected:
        raise HeadMoved(expected=str(expected), actual=str(head.hash))
    row = named_block(entry, to, repository=repository)
    rows = repository.state(entry.id, head.hash).next_offset - repository.state(entry.id, row.hash).next_offset
    return ResetDone(
        entry=entry, old_head=head.hash, head=row.hash, blocks=head.sequence_number - row.sequence_number, rows=rows
    )


def reset_dataset(
    entry: CatalogEntry,
    to: Multihash | int,
    *,
    expected: Multihash,
    subject: Subject,
    access: Access,
    repository: Repository,
    commits: Commits,
) -> ResetDone:
    """Move the head back to a block; to the head itself nothing is moved.

    Raises AccessDenied, NotFound, HeadMoved if the head is not `expected`, InvalidRequest where nodes share heads, Determinate, Indeterminate.
    """
    access.require(subject, Action.REWRITE, entry)
    planned = plan_reset(entry, to, expected=expected, repository=repository)
    if planned.blocks:
        commits.replace(
            entry,
            (),
            onto=planned.head,
            if_match=expected,
            kind=RewriteKind.RESET,
            rows_kept=repository.state(entry.id, planned.old_head).next_offset - planned.rows,
            by=subject.actor,
        )
    return planned
