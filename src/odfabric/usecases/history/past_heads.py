"""Moves of a dataset's head: by its head log, else by the records of rewrites.

Invariant: a log is taken only if it reaches up to the present chain, since a move that it lacks may be a rewrite. Its entries say what
happened and in which order, also on another node; the records beside the dataset add how many rows stayed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from odfabric.domain.chain.state import last_offset_of
from odfabric.domain.chain.walk import walk
from odfabric.domain.heads.head_history import rewrites_history
from odfabric.domain.history.head_changes import HeadChange, rewrites_since
from odfabric.errors import ChainsDiverged, NotFound
from odfabric.formats.identifiers.dataset_layout import block_key
from odfabric.model.heads.head_log import APPENDED, SEGMENT_ENTRIES, HeadMove
from odfabric.model.identity import DatasetId
from odfabric.model.metadata import AddData, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.model.rewrite import Rewrite, RewriteKind
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.chain.rewrite_records import rewrites
from odfabric.usecases.heads.head_writer import stored_move

BLOCKS_WALKED_MAX = 1000
"""Old blocks that are looked at, of each rewrite, for one that was never the head of a recorded move."""
_FORWARDS = f'"kind":"{APPENDED}"'.encode()
_KINDS = frozenset(kind.value for kind in RewriteKind)


@dataclass(frozen=True, slots=True, kw_only=True)
class PastHeads:
    """Reads moves of heads; of a log at most `entries_max` entries, the newest."""

    repository: Repository
    logs: HeadLogs
    entries_max: int

    def rewrites_since(self, dataset: DatasetId, read: Multihash) -> Sequence[Rewrite] | None:
        """Rewrites of a dataset that is here since the block `read` was in its chain.

        Newest first; None if that is not known. Raises Corrupt.
        """
        records = rewrites(dataset, objects=self.repository.objects)
        found = self._by_log(dataset, read, records)
        if found is None and records and self._is_in_chain(dataset, records[0].new_head):
            found = rewrites_since(read, map(_change, records))
            return self._by_blocks(dataset, read, records) if found is None else found
        return found

    def was_here(self, dataset: DatasetId, block: Multihash) -> bool:
        """Whether the store has a block, of any history."""
        return self.repository.objects.stat(block_key(dataset, block)) is not None

    def _by_log(self, dataset: DatasetId, read: Multihash, records: Sequence[Rewrite]) -> Sequence[Rewrite] | None:
        newest = self.logs.last(dataset)
        if newest is None:
            return None
        end = stored_move(dataset, newest).move
        if not self._is_in_chain(dataset, end.new_head):
            return None
        moves = self._moves_down(dataset, end.sequence, read)
        return rewrites_since(read, (self._logged(dataset, move, records) for move in moves))

    def _moves_down(self, dataset: DatasetId, newest: int, read: Multihash) -> Iterator[HeadMove]:
        """Entries of the log, newest first.

        Without those that went forwards from and to other blocks.
        """
        sought = str(read).encode()
        last = max(0, newest + 1 - self.entries_max)
        end = newest + 1
        while end > last:
            first = max(last, end - SEGMENT_ENTRIES)
            for line in reversed(self.logs.lines(dataset, first=first, limit=end - first)):
                # A signature takes longer to check than a line to look through.
                if sought in line or _FORWARDS not in line:
                    yield stored_move(dataset, line).move
            end = first

    def _logged(self, dataset: DatasetId, move: HeadMove, records: Sequence[Rewrite]) -> HeadChange:
        rewrite = None
        if rewrites_history(move) and move.old_head is not None:
            recorded = next(
                (one for one in records if (one.old_head, one.new_head) == (move.old_head, move.new_head)), None
            )
            kept = None if recorded is None else recorded.rows_kept
            if kept is None and move.kind == RewriteKind.RESET.value:
                kept = self._rows_at(dataset, move.new_head)
            # What this version does not know promises nothing.
            kind = RewriteKind(move.kind) if move.kind in _KINDS else RewriteKind.REPLACED
            rewrite = Rewrite(
                kind=kind, old_head=move.old_head, new_head=move.new_head, at=move.system_time, rows_kept=kept
            )
        return HeadChange(old_head=move.old_head, new_head=move.new_head, rewrite=rewrite)

    def _rows_at(self, dataset: DatasetId, block: Multihash) -> int | None:
        """Rows up to a block, None if that cannot be read any more."""
        try:
            for link in islice(walk(self.repository.blocks(dataset), block), BLOCKS_WALKED_MAX):
                event = link.block.event
                if isinstance(event, AddData | ExecuteTransform):
                    last = last_offset_of(event)
                    return 0 if last is None else last + 1
                if link.block.prev_block_hash is None:
                    return 0
        except NotFound:
            pass
        return None

    def _by_blocks(self, dataset: DatasetId, read: Multihash, records: Sequence[Rewrite]) -> Sequence[Rewrite] | None:
        """By the blocks of old histories, as long as the store has them."""
        blocks = self.repository.blocks(dataset)
        for number, rewrite in enumerate(records):
            try:
                if any(
                    link.block.prev_block_hash == read
                    for link in islice(walk(blocks, rewrite.old_head, tail=read), BLOCKS_WALKED_MAX)
                ):
                    return records[: number + 1]
            except (NotFound, ChainsDiverged):
                continue
        return None

    def _is_in_chain(self, dataset: DatasetId, block: Multihash) -> bool:
        return self.repository.chains.contains(dataset, block)


def _change(rewrite: Rewrite) -> HeadChange:
    return HeadChange(old_head=rewrite.old_head, new_head=rewrite.new_head, rewrite=rewrite)
