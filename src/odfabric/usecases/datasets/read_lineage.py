"""Lineage of a dataset, up and down, as far as the reader may know it.

Invariant: a dataset that the reader may not read is no part of the answer, and neither is what only it would lead to. Owns the walk, bounded
in depth and number; not here: how it is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.chain.state import ChainState
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetId
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.datasets.derivatives import inputs_at, possible_readers, records_read

DATASETS_MAX = 200
"""Most datasets of one answer."""


@dataclass(frozen=True, slots=True)
class LineageEdge:
    """`source` is an input of `target`, which is computed by `query`.

    `behind` records of the source are not in the target yet.
    """

    source: DatasetId
    target: DatasetId
    query: str
    behind: int


@dataclass(frozen=True, slots=True)
class Lineage:
    """Datasets by their distance from the one in the middle, inputs below zero.

    And how they hang together.

    `hidden_inputs` is how many inputs of the dataset itself the reader may not read.
    """

    levels: dict[DatasetId, int]
    entries: dict[DatasetId, CatalogEntry]
    edges: tuple[LineageEdge, ...]
    hidden_inputs: int
    is_cut: bool


def read_lineage(entry: CatalogEntry, *, depth: int, repository: Repository) -> Lineage:
    """At most `depth` steps up and down.

    `repository` is as the reader sees it. Raises NotFound, Corrupt.
    """
    entries = {entry.id: entry}
    levels = {entry.id: 0}
    edges: dict[tuple[DatasetId, DatasetId], LineageEdge] = {}
    hidden = len(_inputs_of(entry, repository)) - len(visible_inputs(entry, repository))
    for direction in (-1, 1):
        frontier = [entry]
        for step in range(1, depth + 1):
            following: list[CatalogEntry] = []
            for each in frontier:
                others = visible_inputs(each, repository) if direction < 0 else _readers_of(each, repository)
                for other in others:
                    source, target = (other, each) if direction < 0 else (each, other)
                    edges[source.id, target.id] = _edge(source, target, repository)
                    if other.id not in entries and len(entries) < DATASETS_MAX:
                        entries[other.id] = other
                        levels[other.id] = direction * step
                        following.append(other)
            frontier = following
    kept = tuple(edge for edge in edges.values() if edge.source in entries and edge.target in entries)
    return Lineage(levels, entries, kept, hidden, is_cut=len(kept) < len(edges))


def visible_inputs(entry: CatalogEntry, repository: Repository) -> list[CatalogEntry]:
    """The inputs of its transform that the reader may read."""
    found = (repository.find(dataset) for dataset in _inputs_of(entry, repository))
    return [each for each in found if each is not None]


def _edge(source: CatalogEntry, target: CatalogEntry, repository: Repository) -> LineageEdge:
    _, there = repository.current(source.id)
    _, state = repository.current(target.id)
    return LineageEdge(source.id, target.id, _query_of(state), there.next_offset - records_read(source.id, state))


def _query_of(state: ChainState) -> str:
    """The SQL of the transform in force, its steps one after the other."""
    if state.transform is None:
        return ""
    steps = state.transform.event.transform.queries or ()
    return "\n\n".join(f"-- {step.alias}\n{step.query}" if step.alias else step.query for step in steps)


def _inputs_of(entry: CatalogEntry, repository: Repository) -> tuple[DatasetId, ...]:
    head = repository.chains.head(entry.id)
    return () if head is None else inputs_at(entry, head, repository)


def _readers_of(entry: CatalogEntry, repository: Repository) -> list[CatalogEntry]:
    """The derivative datasets that read it."""
    return [other for other in possible_readers(entry.id, repository) if entry.id in _inputs_of(other, repository)]
