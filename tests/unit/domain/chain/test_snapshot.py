"""From a snapshot to the first blocks of a dataset."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.domain.chain.append import fold_blocks
from odfabric.domain.chain.snapshot import (
    check_snapshot,
    normalised,
    normalised_transform,
    plan_creation,
    resolve_inputs,
)
from odfabric.domain.chain.state import ChainState
from odfabric.errors import InvalidManifest
from odfabric.model.commit import EncodedBlock
from odfabric.model.identity import DatasetAlias, DatasetId, Name
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
    SetDataSchema,
    SetInfo,
    SetPollingSource,
    SetTransform,
    SetVocab,
    SqlQueryStep,
    TransformInput,
    TransformSql,
)
from odfabric.testing.chains import (
    INPUT_IDS,
    START,
    example_id,
    example_polling_source,
    example_push_source,
    example_schema,
    example_transform,
)

KNOWN = {"flights": INPUT_IDS[0], "alice/weather": INPUT_IDS[1], str(INPUT_IDS[2]): INPUT_IDS[2]}
SHORTHAND = TransformSql(engine="spark", query="select 1")
NORMAL = TransformSql(engine="spark", queries=(SqlQueryStep(query="select 1"),))


def snapshot(*events: MetadataEvent, kind: DatasetKind = DatasetKind.ROOT) -> DatasetSnapshot:
    return DatasetSnapshot(name=DatasetAlias(None, Name("test")), kind=kind, metadata=events)


def resolve(ref: str) -> DatasetId | None:
    return KNOWN.get(ref)


def create(found: DatasetSnapshot) -> list[EncodedBlock]:
    return plan_creation(found, dataset_id=example_id(), system_time=START, resolve=resolve)


def refusal(found: DatasetSnapshot) -> InvalidManifest:
    with pytest.raises(InvalidManifest) as caught:
        create(found)
    return caught.value


def test_a_seed_comes_first_then_one_block_per_event_at_one_time() -> None:
    events = (
        SetVocab(event_time_column="date"),
        example_push_source(),
        SetDataSchema(schema=example_schema()),
        SetInfo(),
    )
    blocks = create(snapshot(*events))
    assert [encoded.block.event for encoded in blocks] == [
        Seed(dataset_id=example_id(), dataset_kind=DatasetKind.ROOT),
        *events,
    ]
    assert [encoded.block.sequence_number for encoded in blocks] == [0, 1, 2, 3, 4]
    assert {encoded.block.system_time for encoded in blocks} == {START}
    assert fold_blocks(ChainState.empty(), blocks).dataset_id == example_id()


def test_an_empty_snapshot_is_a_seed() -> None:
    assert len(create(snapshot())) == 1


@pytest.mark.parametrize(
    ("event", "kind", "text"),
    [
        (
            Seed(dataset_id=example_id(), dataset_kind=DatasetKind.ROOT),
            DatasetKind.ROOT,
            "Seed event is generated and cannot be specified explicitly",
        ),
        (AddData(new_watermark=START), DatasetKind.ROOT, "AddData event is not allowed in a dataset snapshot"),
        (
            ExecuteTransform(query_inputs=(), new_watermark=START),
            DatasetKind.DERIVATIVE,
            "ExecuteTransform event is not allowed in a dataset snapshot",
        ),
        (DisablePollingSource(), DatasetKind.ROOT, "DisablePollingSource event is not allowed in a dataset snapshot"),
        (
            DisablePushSource(source_name="default"),
            DatasetKind.ROOT,
            "DisablePushSource event is not allowed in a dataset snapshot",
        ),
        (example_push_source(), DatasetKind.DERIVATIVE, "AddPushSource event is only allowed on root datasets"),
        (example_polling_source(), DatasetKind.DERIVATIVE, "SetPollingSource event is only allowed on root datasets"),
        (example_transform(), DatasetKind.ROOT, "SetTransform is only allowed on derivative datasets"),
    ],
)
def test_events_that_do_not_belong_are_refused_with_their_place(
    event: MetadataEvent, kind: DatasetKind, text: str
) -> None:
    found = refusal(snapshot(SetInfo(), event, kind=kind))
    assert found.message == text
    assert found.place.field == "metadata[1]"


def test_events_of_the_right_kind_pass() -> None:
    check_snapshot(snapshot(example_push_source()))
    check_snapshot(snapshot(example_polling_source()))
    check_snapshot(snapshot(example_transform(), kind=DatasetKind.DERIVATIVE))


def test_what_the_chain_does_not_admit_is_refused_with_place_and_rule() -> None:
    found = refusal(snapshot(SetInfo(), example_push_source(), example_polling_source()))
    assert "Cannot add a polling source while some push sources are still active" in found.message
    assert (found.place.field, found.place.rule) == ("metadata[2]", "B6")


# --- normalisation ----------------------------------------------------------------------------------------------------


def test_the_shorthand_becomes_one_step() -> None:
    assert normalised_transform(SHORTHAND, 0) == NORMAL
    assert normalised_transform(NORMAL, 0) == NORMAL


@pytest.mark.parametrize("source", [example_push_source(), example_polling_source()])
def test_preprocessing_is_normalised_too(source: AddPushSource | SetPollingSource) -> None:
    assert normalised(replace(source, preprocess=SHORTHAND), 0) == replace(source, preprocess=NORMAL)
    assert normalised(source, 0) == source


def test_shorthand_and_steps_together_are_refused() -> None:
    both = replace(NORMAL, query="select 2")
    found = refusal(snapshot(SetInfo(), replace(example_transform(), transform=both), kind=DatasetKind.DERIVATIVE))
    # The kind of a snapshot's events is judged first, then their content.
    assert found.message == "Cannot specify both 'query' and 'queries' in SetTransform"
    assert found.place.field == "metadata[1]"


def test_two_outputs_are_refused() -> None:
    twice = replace(NORMAL, queries=(SqlQueryStep(query="select 1"), SqlQueryStep(query="select 2")))
    with pytest.raises(InvalidManifest, match="Transform has multiple queries without an alias"):
        normalised_transform(twice, 3)
    found = refusal(snapshot(SetInfo(), replace(example_transform(), transform=twice), kind=DatasetKind.DERIVATIVE))
    assert found.place.field == "metadata[1]"
    steps = replace(NORMAL, queries=(SqlQueryStep(alias="a", query="select 1"), SqlQueryStep(query="select 2")))
    assert normalised_transform(steps, 0) == steps


# --- inputs -----------------------------------------------------------------------------------------------------------


def transform(*refs: tuple[str, str | None]) -> SetTransform:
    inputs = tuple(TransformInput(dataset_ref=ref, alias=alias) for ref, alias in refs)
    return SetTransform(inputs=inputs, transform=SHORTHAND)


def test_inputs_become_identities_and_keep_or_get_an_alias() -> None:
    event = transform(("flights", None), ("alice/weather", "w"), (str(INPUT_IDS[2]), None))
    blocks = create(snapshot(event, kind=DatasetKind.DERIVATIVE))
    stored = blocks[1].block.event
    assert isinstance(stored, SetTransform)
    assert stored.inputs == (
        TransformInput(dataset_ref=str(INPUT_IDS[0]), alias="flights"),
        TransformInput(dataset_ref=str(INPUT_IDS[1]), alias="w"),
        TransformInput(dataset_ref=str(INPUT_IDS[2]), alias=str(INPUT_IDS[2])),
    )
    assert stored.transform == NORMAL


def test_all_missing_inputs_are_listed() -> None:
    event = transform(("flights", None), ("nowhere", None), ("bob/lost", "x"))
    found = refusal(snapshot(SetInfo(), event, kind=DatasetKind.DERIVATIVE))
    assert found.message == "Missing inputs: nowhere, bob/lost"
    assert found.place.field == "metadata[1].inputs"


def test_one_dataset_under_two_names_is_a_duplicate() -> None:
    found = refusal(snapshot(transform(("flights", "a"), ("flights", "b")), kind=DatasetKind.DERIVATIVE))
    assert f"Transform contains duplicate inputs: {INPUT_IDS[0]}" in found.message
    assert found.place.rule == "A11"


def test_events_without_inputs_pass_through() -> None:
    assert resolve_inputs([SetInfo()], resolve=resolve) == [SetInfo()]
