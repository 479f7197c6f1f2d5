"""What ValidateQuery says about the state a query will keep.

Owns the words for it: what each stage keeps between transactions, and what a user should know of a query that is accepted.
Invariant: it describes the very stages that transactions run. Not here: states themselves (`state`), how a query is cut
(`compile.key_inference`). Source: docs/engine.md#operations; docs/engine.md#keys-and-stages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from odfabric.model.engine import KeptBy, QueryState
from odfabric_engine_spark.compile.staged_query import StagedQuery
from odfabric_engine_spark.plan.partitioning.partition_keys import StageScan, Subplan
from odfabric_engine_spark.plan.partitioning.stages import GroupStage, RowsStage, Stage, shown_keys
from odfabric_engine_spark.plan.query_classes import LinearQuery

_EARLIER = "an earlier part of the query"
_ONE_KEY = (
    "all rows of {relations} have one key here: they are kept, and those that a change can reach are computed together, as long as they "
    "fit into bound_bytes_max of the engine; partition, group or join by a column to divide them"
)

_MEETS_ALL = (
    "rows of {relations} meet all that is made of {wholes}, for no equality of columns ties them: a change of {wholes} computes all of "
    "these rows again"
)


def expected_states(query: LinearQuery | StagedQuery) -> tuple[QueryState, ...]:
    """What each stateful part of a query keeps, in running order."""
    if isinstance(query, LinearQuery):
        return ()
    return tuple(state for stage in query.stages for state in _states_of(stage))


def notes_on(query: LinearQuery | StagedQuery) -> tuple[str, ...]:
    """Notes on an accepted query: where a change reaches beyond its keys' rows."""
    if isinstance(query, LinearQuery):
        return ()
    subplans = [subplan for stage in query.stages if isinstance(stage, RowsStage) for subplan in stage.subplans]
    notes = (note for subplan in subplans for note in _notes_of(subplan, query))
    return tuple(dict.fromkeys(notes))


def _states_of(stage: Stage) -> Iterator[QueryState]:
    if isinstance(stage, GroupStage):
        yield QueryState(kept=KeptBy.GROUPS, keys=shown_keys(stage), relations=_relations(stage.scans))
    elif isinstance(stage, RowsStage):
        for subplan in stage.subplans:
            if subplan.components is not None or subplan.wholes:
                relations = _relations([*subplan.scans, *subplan.wholes])
                yield QueryState(kept=KeptBy.ROWS, keys=shown_keys(subplan), relations=relations)


def _notes_of(subplan: Subplan, query: StagedQuery) -> Iterator[str]:
    if not subplan.scans:
        return
    if subplan.components == []:
        yield _ONE_KEY.format(relations=_listed(_relations([*subplan.scans, *subplan.wholes])))
    elif wholes := _inputs_of(subplan.wholes, query):
        yield _MEETS_ALL.format(relations=_listed(_relations(subplan.scans)), wholes=_listed(wholes))


def _inputs_of(scans: Sequence[StageScan], query: StagedQuery) -> tuple[str, ...]:
    """The inputs of which scans are made, also through earlier stages.

    None for what stands in the query itself.
    """
    found: dict[str, None] = {}
    waiting = list(reversed(scans))
    while waiting:
        scan = waiting.pop()
        if scan.kind == "input":
            found[str(scan.source)] = None
        elif scan.kind == "stage":
            waiting += reversed(query.stages[int(scan.source)].scans)
    return tuple(found)


def _listed(relations: Sequence[str]) -> str:
    return " and ".join(relations)


def _relations(scans: Sequence[StageScan]) -> tuple[str, ...]:
    """What their rows are of, each once.

    Those that stand in the query itself are not kept.
    """
    names = (str(scan.source) if scan.kind == "input" else _EARLIER for scan in scans if scan.kind != "constant")
    return tuple(dict.fromkeys(names))
