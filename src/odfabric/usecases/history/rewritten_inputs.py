"""Which inputs of a derivative were rewritten after it had read them.

Invariant: the chains decide: an input counts as rewritten exactly if the last block that the derivative consumed is in its chain no more. Such
a derivative keeps its rows and takes nothing new until somebody has it recomputed. When and how the input was rewritten is taken from
the records beside it, where there are any.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.transform.transform_plan import replay_inputs
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, DatasetId
from odfabric.model.metadata import DatasetKind, ExecuteTransform
from odfabric.model.multihash import Multihash
from odfabric.model.rewrite import Rewrite, RewriteKind
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.chain.rewrite_records import rewrites


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenInput:
    """An input whose history no longer has the block `consumed`.

    `alias` is None for an input that the reader may not see; `rewrite` is the newest one that is recorded. `keeps_rows`: each that is
    recorded was a compaction, so the same rows have the same offsets.
    """

    dataset: DatasetId
    alias: DatasetAlias | None
    consumed: Multihash
    rewrite: Rewrite | None
    keeps_rows: bool

    @property
    def message(self) -> str:
        """For people."""
        name = self.alias or self.dataset
        if self.rewrite is None:
            return f"the history of input {name} was rewritten"
        return f"the history of input {name} was {self.rewrite.kind.value} at {self.rewrite.at}"

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {
            "id": str(self.dataset),
            "alias": None if self.alias is None else str(self.alias),
            "consumed": str(self.consumed),
            "kind": None if self.rewrite is None else self.rewrite.kind.value,
            "at": None if self.rewrite is None else str(self.rewrite.at),
            "message": self.message,
        }


def rewritten_inputs(entry: CatalogEntry, *, repository: Repository) -> list[RewrittenInput]:
    """The rewritten inputs of a dataset, none of a root dataset or a copy.

    `repository` is that of the reader. Raises NotFound, Corrupt.
    """
    if entry.kind is not DatasetKind.DERIVATIVE or entry.remote_url is not None:
        return []
    _, state = repository.current(entry.id)
    return [] if state.execute_transform is None else rewritten_since(state.execute_transform.event, repository)


def rewritten_since(event: ExecuteTransform, repository: Repository) -> list[RewrittenInput]:
    """The inputs of a transaction that have another history now; those that are here.

    `repository` is that of the reader. Raises NotFound, Corrupt.
    """
    found = []
    for dataset, consumed in replay_inputs(event).items():
        if consumed is None or repository.chains.head(dataset) is None:
            continue
        if not repository.chains.contains(dataset, consumed):
            seen = repository.find(dataset)
            known = rewrites(dataset, objects=repository.objects)
            found.append(
                RewrittenInput(
                    dataset=dataset,
                    alias=None if seen is None else seen.alias,
                    consumed=consumed,
                    rewrite=known[0] if known and seen is not None else None,
                    keeps_rows=bool(known) and all(one.kind is RewriteKind.COMPACTED for one in known),
                )
            )
    return found
