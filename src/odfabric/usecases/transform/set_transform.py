"""Replace the transform of a derivative dataset.

Invariant: what is committed is a transform that the engine accepts, over the same inputs, with an output that the dataset can hold; a new
optional column is added to its schema in the same commit, also one that an input has got since and the query takes by `*`. Rows are not touched here: the next run finds that the transform was replaced
and makes the rows those of the new one (`usecases.transform.run_transform`).
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.domain.chain.append import fold_blocks, link_blocks, next_system_time
from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.snapshot import normalised, resolve_inputs
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.validate import input_dataset_id
from odfabric.domain.people.access import Action, Subject
from odfabric.domain.transform.transform_evolution import check_inputs_stay, schema_of_output
from odfabric.domain.transform.transform_plan import transform_inputs
from odfabric.errors import IncompatibleSchema, InvalidManifest, InvalidRequest, Place
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import EvolutionVerdict, QueryEvolution
from odfabric.model.identity import DatasetId
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import DatasetKind, MetadataEvent, SetDataSchema, SetTransform
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.engine import Engine
from odfabric.ports.node.clock import Clock
from odfabric.usecases.chain.commit import Commits, PlannedCommit
from odfabric.usecases.chain.repository import Repository
from odfabric.usecases.ingestion.commit_result import CommitResult, result_of
from odfabric.usecases.rights.access import Access
from odfabric.usecases.transform.expected_columns import ExpectedColumns
from odfabric.usecases.transform.judge_transform import refuse_problems, validate_request

_ASKED_FOR = QueryEvolution(
    verdict=EvolutionVerdict.MIGRATION,
    reason="as asked for: the next transaction computes the result anew and corrects the rows that differ",
)


@dataclass(frozen=True, slots=True)
class ChangedTransform:
    """`result` None: the dataset has this transform already.

    `evolution` None: it has never run, or nothing is known of its inputs.
    """

    entry: CatalogEntry
    result: CommitResult | None
    evolution: QueryEvolution | None

    def to_value(self, head: Head) -> dict[str, object]:
        """As JSON, `head` being the dataset's; without blocks nothing was to be changed."""
        evolution = self.evolution
        return {
            "id": str(self.entry.id),
            "alias": str(self.entry.alias),
            "head": str(head.hash),
            "blocks": [] if self.result is None else [str(block) for block in self.result.blocks],
            "verdict": None if evolution is None else evolution.verdict.value,
            "reason": None if evolution is None else evolution.reason,
        }


def set_transform(
    snapshot: DatasetSnapshot,
    *,
    subject: Subject,
    access: Access,
    repository: Repository,
    commits: Commits,
    engine: Engine,
    exchange: Exchange,
    clock: Clock,
    anew: bool = False,
) -> ChangedTransform:
    """Give the dataset of the manifest's name the manifest's transform.

    Other events of the manifest are not looked at.

    With `anew` the transform that it has already is set again, so that the next run computes it from the beginning.
    Raises NotFound, InvalidManifest without a transform, InvalidRequest for other inputs, the dataset as its own or a copy, InvalidQuery, and
    IncompatibleSchema for an output that does not fit the dataset.
    """
    entry = repository.resolve(snapshot.name)
    access.require(subject, Action.WRITE, entry)
    if entry.is_copy:
        raise InvalidRequest(
            f"{entry.alias} is a copy", hint="its owner changes the transform, and a pull brings it here"
        )
    wanted = _wanted(snapshot, repository)
    _check_no_cycle(entry, wanted, repository)
    judged: list[QueryEvolution | None] = []

    def build(base: Head) -> PlannedCommit | None:
        state = repository.state(entry.id, base.hash)
        is_there = state.transform is not None and state.transform.event == wanted
        if is_there and state.execute_transform is None:
            return None
        try:
            expected = ExpectedColumns(repository, engine, exchange, clock.now())
            events, evolution = _events(state, wanted, expected)
        except IncompatibleSchema as refused:
            raise IncompatibleSchema(
                f"{entry.alias}: {refused.message}", place=refused.place, hint=refused.hint
            ) from refused
        if is_there and events == [wanted]:
            if not anew:
                return None
            if evolution is None:
                raise _unchangeable(wanted)
            evolution = _ASKED_FOR
        judged[:] = [evolution]
        blocks = link_blocks(state, events, system_time=next_system_time(state, now=clock.now()))
        return PlannedCommit(tuple(blocks), inputs=transform_inputs(fold_blocks(state, blocks)))

    committed = commits.commit(entry.id, build, by=[subject.actor])
    if committed is None:
        return ChangedTransform(entry, None, None)
    return ChangedTransform(entry, result_of(committed), judged[0])


def _wanted(snapshot: DatasetSnapshot, repository: Repository) -> SetTransform:
    """The manifest's transform as a chain holds it."""

    def resolve(text: str) -> DatasetId | None:
        found = repository.find(parse_dataset_ref(text))
        return found.id if found else None

    for index, event in reversed(list(enumerate(snapshot.metadata))):
        if isinstance(event, SetTransform):
            (resolved,) = resolve_inputs([normalised(event, index)], resolve=resolve)
            assert isinstance(resolved, SetTransform)
            return resolved
    raise InvalidManifest(f"{snapshot.name} has no transform", hint="a derivative dataset has SetTransform")


def _check_no_cycle(entry: CatalogEntry, wanted: SetTransform, repository: Repository) -> None:
    """Raises InvalidRequest if the dataset would be derived from itself.

    It is a new one that may: inputs of one that has run stay.
    """
    waiting, seen = [input_dataset_id(each) for each in wanted.inputs], set[DatasetId]()
    while waiting:
        one = waiting.pop()
        if one is None:
            continue
        if one == entry.id:
            raise InvalidRequest(
                f"{entry.alias} would be derived from itself",
                place=Place(field="inputs"),
                hint="an input is neither the dataset itself nor derived from it",
            )
        found = repository.find(one) if one not in seen else None
        seen.add(one)
        # What is copied is computed elsewhere.
        if found is not None and found.kind is DatasetKind.DERIVATIVE and found.remote_url is None:
            _, state = repository.current(one)
            waiting += transform_inputs(state) if state.transform is not None else ()


def _events(
    state: ChainState, wanted: SetTransform, expected: ExpectedColumns
) -> tuple[list[MetadataEvent], QueryEvolution | None]:
    before = state.transform.event if state.transform is not None else None
    has_run = state.execute_transform is not None
    if before is not None and has_run:
        check_inputs_stay(before, wanted)
    request = validate_request(
        wanted,
        state.vocabulary,
        repository=expected.repository,
        previous=before.transform if before is not None and has_run else None,
        data_schema=current_schema(state) if has_run else None,
        # The state that it has was made without them.
        expected=None if has_run else expected.of,
    )
    result = expected.engine.validate_query(request)
    refuse_problems(result)
    if not has_run:
        return [wanted], None
    schema = current_schema(state)
    if result.evolution is None or result.data_schema is None or schema is None:
        if before == wanted:
            return [wanted], None
        raise _unchangeable(wanted)
    if result.evolution.verdict is EvolutionVerdict.REFUSED:
        raise IncompatibleSchema(result.evolution.reason, hint=result.evolution.hint)
    evolved = schema_of_output(schema, result.data_schema, state.vocabulary)
    if evolved == schema:
        return [wanted], result.evolution
    return [wanted, SetDataSchema(schema=evolved)], _with_more_columns(result.evolution, schema, evolved)


def _unchangeable(wanted: SetTransform) -> InvalidRequest:
    """The refusal of an engine that neither compares queries nor migrates."""
    return InvalidRequest(
        f"the engine {wanted.transform.engine} cannot change a transform that has run",
        hint="declare a new dataset with this transform",
    )


def _with_more_columns(evolution: QueryEvolution, schema: DataSchema, evolved: DataSchema) -> QueryEvolution:
    """The same query gives more columns where an input has got some.

    What is kept of rows does not have them.
    """
    if evolution.verdict is not EvolutionVerdict.COMPATIBLE:
        return evolution
    added = ", ".join(f"`{field.name}`" for field in evolved.fields[len(schema.fields) :])
    reason = (
        f"an input has got {added}: the next transaction computes the result anew and corrects the rows that differ"
    )
    return QueryEvolution(verdict=EvolutionVerdict.MIGRATION, reason=reason)
