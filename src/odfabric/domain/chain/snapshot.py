"""From a DatasetSnapshot to the first blocks of a chain.

Owns what a snapshot may hold, the normalisation of transforms, the resolution of inputs, and the order of the first blocks
(seed first, one block per event, one system time). Not here: reading manifests (`formats.manifests.manifest_yaml`), looking names up
(the caller's `resolve`), writing (`usecases.datasets.create_dataset`). Source: specification, "Dataset creation".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeAlias

from odfabric.domain.chain.append import fold_blocks, link_blocks
from odfabric.domain.chain.state import ChainState
from odfabric.errors import InvalidBlock, InvalidManifest, Place
from odfabric.model.commit import EncodedBlock
from odfabric.model.identity import DatasetId
from odfabric.model.instant import Instant
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    DatasetKind,
    DisablePollingSource,
    DisablePushSource,
    ExecuteTransform,
    MetadataEvent,
    Seed,
    SetPollingSource,
    SetTransform,
    SqlQueryStep,
    Transform,
    TransformInput,
)

InputResolver: TypeAlias = Callable[[str], DatasetId | None]
"""From the text of a dataset reference to the dataset's identity, None if there is no such dataset here."""


def plan_creation(
    snapshot: DatasetSnapshot, *, dataset_id: DatasetId, system_time: Instant, resolve: InputResolver
) -> list[EncodedBlock]:
    """The blocks of a new dataset, seed first, committed with one move of the head.

    Raises InvalidManifest with the event's place (`metadata[2]`) for everything that the snapshot or the chain does not
    admit, missing inputs included (all of them are listed).
    """
    check_snapshot(snapshot)
    events = resolve_inputs(
        [normalised(event, index) for index, event in enumerate(snapshot.metadata)], resolve=resolve
    )
    seed = Seed(dataset_id=dataset_id, dataset_kind=snapshot.kind)
    blocks = link_blocks(ChainState.empty(), [seed], system_time=system_time)
    state = fold_blocks(ChainState.empty(), blocks)
    return [*blocks, *link_events(state, list(enumerate(events)), system_time=system_time)]


def link_events(
    state: ChainState, events: Sequence[tuple[int, MetadataEvent]], *, system_time: Instant
) -> list[EncodedBlock]:
    """Blocks of a snapshot's events behind a chain, each event with its place.

    Raises InvalidManifest with that place (`metadata[2]`) for what the chain does not admit.
    """
    blocks: list[EncodedBlock] = []
    for index, event in events:
        try:
            linked = link_blocks(state, [event], system_time=system_time)
        except InvalidBlock as error:
            raise _invalid(index, error.message, rule=error.place.rule, hint=error.hint) from error
        blocks += linked
        state = fold_blocks(state, linked)
    return blocks


def check_snapshot(snapshot: DatasetSnapshot) -> None:
    """Refuse events that a snapshot of this kind must not hold.

    Events of the other kind of dataset too. Raises InvalidManifest.
    """
    for index, event in enumerate(snapshot.metadata):
        name = type(event).__name__
        match event:
            case Seed():
                raise _invalid(index, "Seed event is generated and cannot be specified explicitly")
            case AddData() | ExecuteTransform() | DisablePushSource() | DisablePollingSource():
                raise _invalid(index, f"{name} event is not allowed in a dataset snapshot")
            case SetPollingSource() | AddPushSource() if snapshot.kind is not DatasetKind.ROOT:
                raise _invalid(index, f"{name} event is only allowed on root datasets")
            case SetTransform() if snapshot.kind is not DatasetKind.DERIVATIVE:
                raise _invalid(index, "SetTransform is only allowed on derivative datasets")
            case _:
                pass


def normalised(event: MetadataEvent, index: int) -> MetadataEvent:
    """The event with its transform in the stored form.

    Raises InvalidManifest; `index` is its place in the snapshot.
    """
    match event:
        case SetTransform():
            return replace(event, transform=normalised_transform(event.transform, index))
        case SetPollingSource() | AddPushSource() if event.preprocess is not None:
            return replace(event, preprocess=normalised_transform(event.preprocess, index))
        case _:
            return event


def normalised_transform(transform: Transform, index: int) -> Transform:
    """`query` turned into a single step of `queries`.

    Raises InvalidManifest for both, or for two outputs.
    """
    if transform.query is not None:
        if transform.queries is not None:
            raise _invalid(index, "Cannot specify both 'query' and 'queries' in SetTransform")
        return replace(transform, query=None, queries=(SqlQueryStep(query=transform.query),))
    if sum(step.alias is None for step in transform.queries or ()) > 1:
        raise _invalid(
            index,
            "Transform has multiple queries without an alias, only one is such query is allowed to be treated as output",
            hint="give every step but the last an alias",
        )
    return transform


def resolve_inputs(events: Sequence[MetadataEvent], *, resolve: InputResolver) -> list[MetadataEvent]:
    """Every input of every SetTransform by identity.

    Its alias, if not given, is the reference as written.

    Raises InvalidManifest that lists all inputs which `resolve` does not know.
    """
    resolved: list[MetadataEvent] = []
    missing: dict[str, int] = {}
    for index, event in enumerate(events):
        if not isinstance(event, SetTransform):
            resolved.append(event)
            continue
        inputs: list[TransformInput] = []
        for entry in event.inputs:
            dataset_id = resolve(entry.dataset_ref)
            if dataset_id is None:
                missing.setdefault(entry.dataset_ref, index)
                continue
            alias = entry.dataset_ref if entry.alias is None else entry.alias
            inputs.append(TransformInput(dataset_ref=str(dataset_id), alias=alias))
        resolved.append(replace(event, inputs=tuple(inputs)))
    if missing:
        raise _invalid(
            next(iter(missing.values())),
            f"Missing inputs: {', '.join(missing)}",
            member="inputs",
            hint="create or pull them first",
        )
    return resolved


def _invalid(
    index: int, message: str, *, member: str | None = None, rule: str | None = None, hint: str | None = None
) -> InvalidManifest:
    field = f"metadata[{index}]" + (f".{member}" if member else "")
    return InvalidManifest(message, place=Place(field=field, rule=rule), hint=hint)
