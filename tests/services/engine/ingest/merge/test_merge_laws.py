"""Laws of merging over random histories: what each strategy promises.

Snapshot: the state that its changelog describes is always the last input. Ledger: a key is there once, with the values that came
first. UpsertStream: a key is as its last row says. ChangelogStream: what was given is what is there. Every changelog is well-formed: what it withdraws is there, and a correction is a pair.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odfabric.errors import InvalidData
from odfabric.model.data_schema import (
    DataField,
    DataSchema,
    DataTypeFloat64,
    DataTypeInt32,
    DataTypeList,
    DataTypeOption,
    DataTypeString,
    DataTypeTimestamp,
    TimeUnit,
)
from odfabric.model.instant import Instant
from odfabric.model.source import (
    MergeStrategyChangelogStream,
    MergeStrategyLedger,
    MergeStrategySnapshot,
    MergeStrategyUpsertStream,
    ReadStepNdJson,
)
from odfabric_engine_spark.spark.calls.call import EngineCall
from tests.services.engine.ingest.ingesting import SOURCE_TIME, Dataset

pytestmark = pytest.mark.spark

SCHEMA = DataSchema(
    fields=(
        DataField(name="k", type=DataTypeOption(inner=DataTypeInt32())),
        DataField(name="t", type=DataTypeOption(inner=DataTypeString())),
        DataField(name="f", type=DataTypeOption(inner=DataTypeFloat64())),
        DataField(name="l", type=DataTypeOption(inner=DataTypeList(item_type=DataTypeOption(inner=DataTypeInt32())))),
    )
)
STEP = ReadStepNdJson(schema=SCHEMA)
WITH_KINDS = ReadStepNdJson(
    schema=DataSchema(
        fields=(
            *SCHEMA.fields,
            DataField(name="op", type=DataTypeInt32()),
            DataField(name="event_time", type=DataTypeOption(inner=DataTypeTimestamp(unit=TimeUnit.MILLISECOND))),
        )
    )
)
ROW = st.fixed_dictionaries(
    {
        "k": st.integers(0, 5),
        "t": st.sampled_from([None, "", "a", "ż"]),
        "f": st.sampled_from([None, 0.0, -0.0, 1.5]),
        "l": st.sampled_from([None, [], [1], [None, 1]]),
    }
)
BATCH = st.lists(ROW, max_size=7, unique_by=lambda row: row["k"])
EXAMPLES = settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])


def content(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def texts(rows: list[dict[str, Any]]) -> list[str]:
    """Rows as texts in which 0.0 and -0.0 differ and nothing else does, in no order."""
    return sorted(json.dumps({name: row[name] for name in ("k", "t", "f", "l")}) for row in rows)


def replayed(changelog: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows that a changelog leaves.

    Every withdrawal must find its row, every correction its other half.
    """
    state: list[dict[str, Any]] = []
    for position, row in enumerate(changelog):
        assert row["offset"] == position
        if row["op"] in (1, 2):
            found = [old for old in state if texts([old]) == texts([row])]
            assert found, f"withdrawn but not there: {row}"
            assert found[0]["event_time"] == row["event_time"]
            state.remove(found[0])
        else:
            state.append(row)
        following = changelog[position + 1] if position + 1 < len(changelog) else None
        assert (row["op"] == 2) == (following is not None and following["op"] == 3 and following["k"] == row["k"])
    return state


@EXAMPLES
@given(batches=st.lists(BATCH, min_size=1, max_size=3))
def test_snapshot_then_project_is_the_input(
    engine_call: EngineCall, tmp_path_factory: pytest.TempPathFactory, batches: list[list[dict[str, Any]]]
) -> None:
    dataset = in_own_folder(engine_call, tmp_path_factory)
    dataset.merge = MergeStrategySnapshot(primary_key=("k",))
    changelog: list[dict[str, Any]] = []
    for batch in batches:
        changelog += dataset.ingest(STEP, content(batch))
        assert texts(replayed(changelog)) == texts(batch)
    assert dataset.ingest(STEP, content(list(reversed(batches[-1])))) == []


@EXAMPLES
@given(batches=st.lists(BATCH, min_size=1, max_size=3))
def test_ledger_keeps_the_first_row_of_every_key(
    engine_call: EngineCall, tmp_path_factory: pytest.TempPathFactory, batches: list[list[dict[str, Any]]]
) -> None:
    dataset = in_own_folder(engine_call, tmp_path_factory)
    dataset.merge = MergeStrategyLedger(primary_key=("k",))
    first: dict[int, dict[str, Any]] = {}
    rows: list[dict[str, Any]] = []
    for batch in [*batches, batches[0]]:
        for row in batch:
            first.setdefault(row["k"], row)
        rows += dataset.ingest(STEP, content(batch))
    assert texts(rows) == texts(list(first.values()))
    assert {row["op"] for row in rows} <= {0}


@EXAMPLES
@given(batch=BATCH.filter(bool), chosen=st.integers(0, 6), other=ROW)
def test_a_key_twice_is_one_row_or_refused(
    engine_call: EngineCall,
    tmp_path_factory: pytest.TempPathFactory,
    batch: list[dict[str, Any]],
    chosen: int,
    other: dict[str, Any],
) -> None:
    original = batch[chosen % len(batch)]
    doubled = [*batch, {**other, "k": original["k"]}]
    for merge in (MergeStrategyLedger(primary_key=("k",)), MergeStrategySnapshot(primary_key=("k",))):
        dataset = in_own_folder(engine_call, tmp_path_factory)
        dataset.merge = merge
        if texts([doubled[-1]]) == texts([original]):
            assert texts(dataset.ingest(STEP, content(doubled))) == texts(batch)
        else:
            with pytest.raises(InvalidData, match="same primary key"):
                dataset.ingest(STEP, content(doubled))


UPSERTS = st.lists(st.tuples(ROW, st.sampled_from([0, 0, 1, 2, 3])), max_size=9)


@EXAMPLES
@given(batches=st.lists(UPSERTS, min_size=1, max_size=3), kinds=st.booleans())
def test_a_key_is_as_its_last_upsert_says(
    engine_call: EngineCall,
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[dict[str, Any], int]]],
    kinds: bool,
) -> None:
    dataset = in_own_folder(engine_call, tmp_path_factory)
    dataset.merge = MergeStrategyUpsertStream(primary_key=("k",))
    step = WITH_KINDS if kinds else STEP
    state: dict[int, dict[str, Any]] = {}
    changelog: list[dict[str, Any]] = []
    for batch in batches:
        for row, kind in batch:
            if kinds and kind == 1:
                state.pop(row["k"], None)
            else:
                state[row["k"]] = row
        changelog += dataset.ingest(step, content([{**row, "op": kind} if kinds else row for row, kind in batch]))
        assert texts(replayed(changelog)) == texts(list(state.values()))
    assert dataset.ingest(STEP, content(list(state.values()))) == []


@EXAMPLES
@given(
    batches=st.lists(st.lists(st.tuples(ROW, st.booleans()), max_size=6), min_size=1, max_size=3),
    timeless=st.booleans(),
)
def test_a_changelog_is_kept_as_it_was_given(
    engine_call: EngineCall,
    tmp_path_factory: pytest.TempPathFactory,
    batches: list[list[tuple[dict[str, Any], bool]]],
    timeless: bool,
) -> None:
    dataset = in_own_folder(engine_call, tmp_path_factory)
    dataset.merge = MergeStrategyChangelogStream(primary_key=("k",))
    state: dict[int, dict[str, Any]] = {}
    changelog: list[dict[str, Any]] = []
    for number, batch in enumerate(batches):
        given = []
        for row, gone in batch:
            now = row if timeless else {**row, "event_time": f"2024-01-0{number + 1}T00:00:00Z"}
            old = state.pop(row["k"], None)
            if old is not None:
                given.append({**old, "op": 1 if gone else 2})
            if old is None or not gone:
                given.append({**now, "op": 0 if old is None else 3})
                state[row["k"]] = now
        later = Instant(SOURCE_TIME.epoch_ns + number * 10**9)
        added = dataset.ingest(WITH_KINDS, content(given), source_time=later)
        assert len(added) == len(given)
        changelog += added
        assert texts(replayed(changelog)) == texts(list(state.values()))


def in_own_folder(call: EngineCall, folders: pytest.TempPathFactory) -> Dataset:
    folder = folders.mktemp("law")
    scratch = folder / "scratch"
    scratch.mkdir()
    return Dataset(replace(call, exchange=type(call.exchange).at(folder), scratch=scratch))
