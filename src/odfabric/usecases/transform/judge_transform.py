"""Judge the transform of a dataset against its inputs as they are now.

Owns the way from a SetTransform event to what the engine is asked, and from its answer to an error. Not here: what is wrong with a
query (the engine), what a change of a transform does to rows (`usecases.transform.run_transform`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.chain.state import ChainState
from odfabric.domain.chain.validate import input_dataset_id
from odfabric.domain.chain.walk import BlockSource, data_slices_down
from odfabric.domain.transform.transform_evolution import has_more_columns, is_asked_for_again, replaced_transform
from odfabric.domain.transform.transform_plan import InputChain, TransformChange
from odfabric.errors import InvalidManifest, InvalidQuery, NotFound, Place
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.commit import CatalogEntry
from odfabric.model.data_schema import DataSchema
from odfabric.model.engine import EvolutionVerdict, QueryInput, QueryProblem, ValidateRequest, ValidateResult
from odfabric.model.identity import DatasetId
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import SetTransform, SetVocab, Transform
from odfabric.model.vocabulary import DatasetVocabulary
from odfabric.ports.engine import Engine
from odfabric.usecases.chain.repository import Repository

ColumnsOf: TypeAlias = Callable[[CatalogEntry, ChainState], DataSchema | None]
"""Gives the columns of a dataset, None if they are not known."""


def validate_request(
    event: SetTransform,
    vocabulary: DatasetVocabulary,
    *,
    repository: Repository,
    previous: Transform | None = None,
    data_schema: DataSchema | None = None,
    described: Mapping[str, QueryInput] | None = None,
    expected: ColumnsOf | None = None,
) -> ValidateRequest:
    """What the engine is asked of a transform.

    `described` stands in for inputs by alias, and `expected` gives the columns of others, those without data too.
    Raises NotFound for an input.

    `previous` is the transform that it takes the place of in a dataset of the columns `data_schema`.
    """
    inputs = []
    for declared in event.inputs:
        alias = declared.alias or declared.dataset_ref
        stand_in = (described or {}).get(alias)
        if stand_in is not None:
            inputs.append(stand_in)
            continue
        entry = repository.resolve(parse_dataset_ref(declared.dataset_ref))
        _, state = repository.current(entry.id)
        columns = current_schema(state) if expected is None else expected(entry, state)
        inputs.append(QueryInput(alias=alias, vocabulary=state.vocabulary, data_schema=columns))
    return ValidateRequest(
        vocabulary=vocabulary,
        transform=event.transform,
        inputs=tuple(inputs),
        previous=previous,
        data_schema=data_schema,
    )


def snapshot_request(
    snapshot: DatasetSnapshot,
    *,
    repository: Repository | None,
    described: Mapping[str, QueryInput],
    expected: ColumnsOf | None = None,
) -> ValidateRequest:
    """The engine's request for a manifest.

    Its transform, and that of the dataset of this name if it has run already.

    Without a repository all inputs must be described. Raises InvalidManifest without a transform, NotFound for an input.
    """
    event = next((each for each in reversed(snapshot.metadata) if isinstance(each, SetTransform)), None)
    if event is None:
        raise InvalidManifest(f"{snapshot.name} has no transform", hint="a derivative dataset has SetTransform")
    vocabulary = DatasetVocabulary.from_event(
        next((each for each in reversed(snapshot.metadata) if isinstance(each, SetVocab)), None)
    )
    if repository is None:
        missing = [one for one in event.inputs if (one.alias or one.dataset_ref) not in described]
        if missing:
            alias = missing[0].alias or missing[0].dataset_ref
            raise NotFound("dataset", missing[0].dataset_ref, hint=f"describe it: --input '{alias}=id BIGINT, ..'")
        inputs = tuple(described[one.alias or one.dataset_ref] for one in event.inputs)
        return ValidateRequest(vocabulary=vocabulary, transform=event.transform, inputs=inputs)
    there = repository.find(snapshot.name)
    _, state = (None, None) if there is None else repository.current(there.id)
    if state is None or state.transform is None or state.execute_transform is None:
        return validate_request(event, vocabulary, repository=repository, described=described, expected=expected)
    return validate_request(
        event,
        vocabulary,
        repository=repository,
        previous=state.transform.event.transform,
        data_schema=current_schema(state),
        described=described,
    )


def change_of(
    state: ChainState,
    inputs: Mapping[DatasetId, InputChain],
    *,
    blocks: BlockSource,
    engine: Engine,
    blocks_max: int,
) -> TransformChange | None:
    """What the next transaction makes of a transform replaced since the last, or None.

    `blocks` are the dataset's own. It depends on the chain and the two transforms alone, so a replay comes to the same. With more columns
    than before, or set again as it was, also what says the same is computed again. Raises Determinate.
    """
    before = replaced_transform(state, blocks)
    if before is None or state.transform is None:
        return None
    continues = not has_more_columns(state) and not is_asked_for_again(state, blocks)
    if continues and _says_the_same(before, state.transform.event, state, inputs, engine):
        return TransformChange(previous=before.transform, migrates=False)
    output = tuple(data_slices_down(blocks, state.head, tail=None, blocks_max=blocks_max))[::-1]
    return TransformChange(previous=before.transform, migrates=True, output=output)


def _says_the_same(
    before: SetTransform,
    after: SetTransform,
    state: ChainState,
    inputs: Mapping[DatasetId, InputChain],
    engine: Engine,
) -> bool:
    if [each.alias for each in before.inputs] != [each.alias for each in after.inputs]:
        return False
    request = ValidateRequest(
        vocabulary=state.vocabulary,
        transform=after.transform,
        inputs=_described(after, inputs),
        previous=before.transform,
    )
    evolution = engine.validate_query(request).evolution
    return evolution is not None and evolution.verdict is EvolutionVerdict.COMPATIBLE


def means_the_same(
    state: ChainState, early: Mapping[DatasetId, InputChain], late: Mapping[DatasetId, InputChain], *, engine: Engine
) -> bool:
    """Whether the transform is accepted and has the same meaning at both blocks.

    Over its inputs as they are there. Raises Determinate.
    """
    if state.transform is None:
        return False
    event = state.transform.event
    before, after = _described(event, early), _described(event, late)
    if before == after:
        return True
    one, other = (
        engine.validate_query(ValidateRequest(vocabulary=state.vocabulary, transform=event.transform, inputs=inputs))
        for inputs in (before, after)
    )
    return one.data_schema is not None and (one.data_schema, one.meaning) == (other.data_schema, other.meaning)


def _described(event: SetTransform, inputs: Mapping[DatasetId, InputChain]) -> tuple[QueryInput, ...]:
    """What the engine gets of those inputs of a transform that are here."""
    known = []
    for declared in event.inputs:
        dataset = input_dataset_id(declared)
        if dataset is not None and dataset in inputs:
            found = inputs[dataset].state
            alias = declared.alias or declared.dataset_ref
            known.append(QueryInput(alias=alias, vocabulary=found.vocabulary, data_schema=current_schema(found)))
    return tuple(known)


def refuse_problems(result: ValidateResult) -> None:
    """Raises InvalidQuery for the first problem, with all others, if there are any."""
    if not result.problems:
        return
    first, *others = map(_refusal, result.problems)
    first.also = tuple(others)
    raise first


def _refusal(problem: QueryProblem) -> InvalidQuery:
    of_input = problem.of_input
    field = f"transform.queries[{problem.step}]" if of_input is None else f"inputs[{of_input}].ddl"
    place = Place(field=field, line=problem.line, column=problem.column, rule=problem.rule)
    refusal = InvalidQuery(problem.message, place=place, hint=problem.hint)
    refusal.suggestion = problem.suggestion
    return refusal
