"""Columns of inputs behind the columns of a derivative, by its transform.

Invariant: columns of an input that the reader may not read are no part of the answer. It is of the transform in force and the columns that
the inputs have now; no rows are read. Not here: how columns are followed through a query (the engine).
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.chain.validate import input_dataset_id
from odfabric.errors import InvalidInput, NotFound
from odfabric.model.commit import CatalogEntry
from odfabric.ports.engine import Engine
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.provenance.provenance_document import queries_of
from odfabric.usecases.transform.judge_transform import validate_request


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnBehind:
    """A column of an input behind an output column.

    The words are those of `model.engine.ColumnLineage`.
    """

    output_column: str
    source: CatalogEntry
    column: str
    role: str
    transformation: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsOfDerivative:
    """What is behind the columns of `entry` by `queries`, sorted by output column.

    `hidden` counts inputs that the reader may not read; `problem` says why nothing is known.
    """

    entry: CatalogEntry
    queries: tuple[str, ...] = ()
    behind: tuple[ColumnBehind, ...] = ()
    hidden: int = 0
    problem: str | None = None


def column_lineage(
    entry: CatalogEntry, *, repository: Repository, seen: Repository, engine: Engine
) -> ColumnsOfDerivative:
    """The columns behind those of a dataset, nothing for a root.

    Raises Determinate if the engine is away, Corrupt.
    """
    _, state = repository.current(entry.id)
    if state.transform is None:
        return ColumnsOfDerivative(entry=entry)
    event = state.transform.event
    found = ColumnsOfDerivative(entry=entry, queries=tuple(queries_of(event.transform)))
    sources: dict[str, CatalogEntry | None] = {}
    for declared in event.inputs:
        dataset = input_dataset_id(declared)
        sources[declared.alias or declared.dataset_ref] = None if dataset is None else seen.find(dataset)
    hidden = sum(source is None for source in sources.values())
    try:
        request = validate_request(event, state.vocabulary, repository=repository)
        result = engine.validate_query(request)
    except (NotFound, InvalidInput):
        problem = "an input is not on this node, or its columns are not known"
        return ColumnsOfDerivative(entry=entry, queries=found.queries, hidden=hidden, problem=problem)
    behind = []
    for one in result.column_lineage:
        source = sources.get(one.input)
        if source is not None:
            behind.append(
                ColumnBehind(
                    output_column=one.output_column,
                    source=source,
                    column=one.column,
                    role=one.role,
                    transformation=one.transformation,
                )
            )
    unknown = None if result.column_lineage else "the engine does not say what its columns are made of"
    return ColumnsOfDerivative(entry=entry, queries=found.queries, behind=tuple(behind), hidden=hidden, problem=unknown)


def lineage_value(found: ColumnsOfDerivative) -> dict[str, object]:
    """The same as a JSON value, for exports."""
    return {
        "queries": list(found.queries),
        "columns": [
            {
                "of": one.output_column,
                "dataset": str(one.source.id),
                "name": str(one.source.alias),
                "column": one.column,
                "role": one.role,
                "transformation": one.transformation,
            }
            for one in found.behind
        ],
    }
