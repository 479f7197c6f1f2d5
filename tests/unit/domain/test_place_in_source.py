"""Where a record of a root was in its file: what can be known, and what cannot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from odfabric.domain.chain.block_attributes import as_extra
from odfabric.domain.provenance.place_in_source import Source, place_in_source
from odfabric.formats.identifiers.multihash import parse_multihash
from odfabric.model.metadata import (
    AddData,
    AddPushSource,
    DataSlice,
    OffsetInterval,
    SetPollingSource,
    SourceState,
    TransformSql,
)
from odfabric.model.operation import OperationType
from odfabric.model.source import (
    FetchStepUrl,
    MergeStrategy,
    MergeStrategyAppend,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    PrepStepDecompress,
    ReadStepNdJson,
)

HASH = parse_multihash("f1620" + "00" * 32)
APPEND = AddPushSource(source_name="default", read=ReadStepNdJson(), merge=MergeStrategyAppend())
POLLED = SetPollingSource(
    fetch=FetchStepUrl(url="https://x.example/a.csv"), read=ReadStepNdJson(), merge=MergeStrategyAppend()
)
KEYED = SourceState(source_name="default", kind="odfabric/idempotency", value="f00")
FILE = as_extra({"odfabric.dev/polled": {"content": str(HASH), "name": "march.csv"}})


def block(rows: int = 5, **given: object) -> AddData:
    data = DataSlice(
        logical_hash=HASH, physical_hash=HASH, offset_interval=OffsetInterval(start=10, end=9 + rows), size=1
    )
    return replace(AddData(prev_offset=9, new_data=data, new_source_state=KEYED), **given)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("event", "source", "message"),
    [
        (block(), APPEND, "record 3 of the 5 of what was pushed in this block"),
        (block(extra=FILE), POLLED, "record 3 of the 5 of file march.csv"),
        (
            block(new_source_state=SourceState(source_name="default", kind="odf/etag", value="x7"), extra=FILE),
            POLLED,
            "record 3 of the 5 of file march.csv",
        ),
    ],
)
def test_a_place_is_known_where_nothing_comes_between(event: AddData, source: Source, message: str) -> None:
    found = place_in_source(12, OperationType.APPEND, event, source, one_event_time=True)
    assert (found.message, found.record, found.records) == (message, 3, 5)
    late = place_in_source(12, OperationType.APPEND, event, source, one_event_time=False)
    assert late.record is None
    assert "in order of event time" in late.message


@pytest.mark.parametrize(
    ("event", "source", "reason"),
    [
        (block(), None, "the chain does not say how it was read"),
        (block(), replace(APPEND, preprocess=TransformSql(engine="spark")), "a query of the source"),
        (block(), replace(APPEND, merge=MergeStrategyLedger(primary_key=("k",))), "compared with earlier ones"),
        (block(extra=FILE), replace(POLLED, prepare=(PrepStepDecompress(format="Zip"),)), "a step of preparation"),  # type: ignore[arg-type]
        (block(extra=as_extra({"odfabric.dev/rejected-rows": {"rows": 1, "dataset": "d"}})), APPEND, "were rejected"),
        (block(extra=as_extra({"odfabric.dev/polled-before": []})), POLLED, "made of several"),
        (block(new_source_state=None), APPEND, "does not say which software"),
    ],
)
def test_else_only_the_file_is_named(event: AddData, source: Source | None, reason: str) -> None:
    found = place_in_source(12, OperationType.APPEND, event, source, one_event_time=True)
    assert found.record is None
    assert found.message.startswith("one of the records of ")
    assert reason in found.message


def test_the_only_record_of_a_block_is_the_first() -> None:
    found = place_in_source(10, OperationType.APPEND, block(1, new_source_state=None), APPEND, one_event_time=False)
    assert (found.record, found.records) == (1, 1)


@pytest.mark.parametrize(
    "merge", [MergeStrategySnapshot(primary_key=("k",)), MergeStrategyUpsertStream(primary_key=("k",))]
)
@pytest.mark.parametrize(
    ("op", "done"), [(OperationType.CORRECT_FROM, "replaced"), (OperationType.RETRACT, "taken back")]
)
def test_a_row_that_a_merge_withdraws_was_not_in_the_file(merge: MergeStrategy, op: OperationType, done: str) -> None:
    found = place_in_source(12, op, block(extra=FILE), replace(POLLED, merge=merge), one_event_time=True)
    assert (found.message, found.record) == (f"the earlier row of its key, {done} by file march.csv", None)
    said_by_file = place_in_source(12, op, block(extra=FILE), POLLED, one_event_time=True)
    assert said_by_file.record == 3
