"""Which inputs of a derivative were rewritten after it had read them.

Invariant: the chains decide: an input counts as rewritten exactly if the last block that the derivative consumed is in its chain no more. Such
a derivative keeps its rows and takes nothing new until somebody has it recomputed. How the input was rewritten since, and whether the rows
that were read are still there, is taken from its head log and the records beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.chain.state import last_input_block_of, last_input_offset_of
from odfabric.domain.chain.walk import data_slices_down
from odfabric.domain.history.head_changes import decisive, rows_stay
from odfabric.formats.identifiers.dataset_layout import block_key, data_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.metadata import AddData, DatasetKind, ExecuteTransform, ExecuteTransformInput
from odfabric.model.multihash import Multihash
from odfabric.model.rewrite import Rewrite
from odfabric.ports.datasets.head_logs import HeadLogs
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.chain.rewrite_records import rewrites
from odfabric.usecases.history.past_heads import PastHeads


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenInput:
    """An input whose history no longer has the block `consumed`.

    `alias` is None for an input that the reader may not see. `rewrite` is the first one since then that took away rows that were read, else the
    newest. `keeps_rows`: the rows that were read are there at their offsets. `is_known`: the block is known to have been in the chain here.
    """

    dataset: DatasetId
    alias: DatasetAlias | None
    consumed: Multihash
    rewrite: Rewrite | None
    keeps_rows: bool
    is_known: bool

    @property
    def message(self) -> str:
        """For people."""
        name = self.alias or self.dataset
        if self.rewrite is None:
            return f"the history of input {name} was rewritten"
        stays = "; the rows that were read are the same" if self.keeps_rows else ""
        return f"the history of input {name} was {self.rewrite.kind.value} at {self.rewrite.at}{stays}"

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {
            "id": str(self.dataset),
            "alias": None if self.alias is None else str(self.alias),
            "consumed": str(self.consumed),
            "kind": None if self.rewrite is None else self.rewrite.kind.value,
            "at": None if self.rewrite is None else str(self.rewrite.at),
            "keepsRows": self.keeps_rows,
            "message": self.message,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class InputHistories:
    """What became of the histories that derivatives have read.

    `seen` is the repository of the reader; at most `entries_max` entries of a head log are read.
    """

    repository: Repository
    seen: Repository
    logs: HeadLogs
    entries_max: int

    def rewritten(self, entry: CatalogEntry) -> list[RewrittenInput]:
        """The rewritten inputs of a dataset, none of a root dataset or a copy.

        Raises NotFound, Corrupt.
        """
        if entry.kind is not DatasetKind.DERIVATIVE or entry.remote_url is not None:
            return []
        _, state = self.repository.current(entry.id)
        return [] if state.execute_transform is None else self.since(state.execute_transform.event)

    def since(self, event: ExecuteTransform) -> list[RewrittenInput]:
        """The inputs of a transaction that have another history now; those that are here.

        Raises NotFound, Corrupt.
        """
        found = []
        for progress in event.query_inputs:
            dataset, consumed = progress.dataset_id, last_input_block_of(progress)
            if consumed is None or self.repository.chains.head(dataset) is None:
                continue
            if not self.repository.chains.contains(dataset, consumed):
                found.append(self._rewritten(progress, consumed))
        return found

    def is_gone(self, one: RewrittenInput) -> bool:
        """Whether something of the history that was read was collected since.

        What the present history names is never collected: without it the dataset is damaged. Raises Corrupt.
        """
        blocks, objects = self.repository.blocks(one.dataset), self.repository.objects
        present = {data.physical_hash for data in data_slices_down(blocks, self.repository.head(one.dataset).hash)}
        name: Multihash | None = one.consumed
        while name is not None and not self.repository.chains.contains(one.dataset, name):
            if objects.stat(block_key(one.dataset, name)) is None:
                return True
            block = blocks.get(name)
            event = block.event
            data = event.new_data if isinstance(event, AddData | ExecuteTransform) else None
            own = None if data is None or data.physical_hash in present else data.physical_hash
            if own is not None and objects.stat(data_key(one.dataset, own)) is None:
                return True
            name = block.prev_block_hash
        return False

    def _rewritten(self, progress: ExecuteTransformInput, consumed: Multihash) -> RewrittenInput:
        dataset, last = progress.dataset_id, last_input_offset_of(progress)
        rows = 0 if last is None else last + 1
        heads = PastHeads(repository=self.repository, logs=self.logs, entries_max=self.entries_max)
        since = heads.rewrites_since(dataset, consumed)
        alias = None if (seen := self.seen.find(dataset)) is None else seen.alias
        recorded = rewrites(dataset, objects=self.repository.objects) if since is None else since
        _, state = self.repository.current(dataset)
        return RewrittenInput(
            dataset=dataset,
            alias=alias,
            consumed=consumed,
            rewrite=None if alias is None else decisive(recorded, rows) if since else next(iter(recorded), None),
            keeps_rows=since is not None and rows_stay(since, rows) and rows <= state.next_offset,
            is_known=since is not None or heads.was_here(dataset, consumed),
        )
