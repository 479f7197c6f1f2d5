"""Changing a dataset's transform: commits, the next run, verification."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.domain.chain.append import link_blocks
from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.domain.people.access import Subject
from odfabric.errors import Corrupt, IncompatibleSchema, InvalidQuery, InvalidRequest, NotFound
from odfabric.formats.identifiers.dataset_layout import engine_records_prefix, in_dataset
from odfabric.formats.identifiers.did import did_key
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry, Head
from odfabric.model.data_schema import DataField, DataTypeOption, DataTypeString
from odfabric.model.engine import (
    EngineInfo,
    EvolutionVerdict,
    MigrateRequest,
    TransformResult,
    ValidateRequest,
    ValidateResult,
)
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import ExecuteTransform, SetDataSchema, SetTransform
from odfabric.ports.engine import ProgressListener
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.chain.commit import PlannedCommit
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.usecases.transform.engine_records import engine_records, makers
from odfabric.usecases.transform.set_transform import ChangedTransform
from odfabric.usecases.verification.replay_transactions import ReplayedTransaction, ReplayPorts, replay_transactions
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.manifests import ROOT

OTHER = ROOT.replace("name: readings", "name: others")
BOTH = """
kind: DatasetSnapshot
version: 1
content:
  name: chosen
  kind: Derivative
  metadata:
  - kind: SetTransform
    inputs: [{datasetRef: readings, alias: a}, {datasetRef: others, alias: b}]
    transform: {kind: Sql, engine: spark, query: SELECT * FROM a}
"""


class Story:
    """Two inputs, and a copy of the first until its transform is changed."""

    def __init__(self, folder: Path) -> None:
        self.memory = MemoryNode(folder)
        self.readings = self.memory.add(ROOT)
        self.others = self.memory.add(OTHER)
        self.chosen = self.memory.add(BOTH)

    def push(self, entry: CatalogEntry, *cities: str) -> None:
        lines = [json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": city}) for city in cities]
        body = iter(["\n".join(lines).encode()])
        job = self.memory.node.requests.push(PushData(dataset=entry.id, body=body))
        assert isinstance(job, Job)
        assert self.memory.finish(job).status is JobStatus.SUCCEEDED

    def pull(self) -> dict[str, object]:
        request = PullRequest(dataset=self.chosen.id, alias=self.chosen.alias)
        job = self.memory.finish(self.memory.node.requests.pull(request))
        assert job.status is JobStatus.SUCCEEDED, job.error
        value: dict[str, object] = json.loads(job.result or "")
        return value

    def change(self, query: str, manifest: str = BOTH, *, anew: bool = False) -> ChangedTransform:
        (snapshot,) = parse_snapshots(manifest.replace("SELECT * FROM a", query), file="test.yaml")
        return self.memory.node.editing.set_transform(snapshot, self.memory.node.operator, anew=anew)

    def records(self) -> list[tuple[int, str]]:
        asked = ReadTail(skip=0, limit=1000, data_format="JsonAoS", schema_format=None)
        rows = self.memory.node.rows.tail(self.chosen, asked)["data"]
        return [(row["op"], row["city"]) for row in rows]  # type: ignore[attr-defined]

    def events(self) -> list[type]:
        return [type(link.block.event) for link in self.memory.node.datasets.log(self.chosen, limit=100)][::-1]

    def add_column(self, entry: CatalogEntry, name: str, *, last: bool = True) -> None:
        """An optional text, as a commit of another node."""

        def build(base: Head) -> PlannedCommit:
            state = self.memory.node.repository.state(entry.id, base.hash)
            known = current_schema(state)
            assert known is not None
            added = DataField(name=name, type=DataTypeOption(inner=DataTypeString()))
            fields = (*known.fields, added) if last else (*known.fields[:-1], added, known.fields[-1])
            event = SetDataSchema(schema=replace(known, fields=fields))
            return PlannedCommit(tuple(link_blocks(state, [event], system_time=base.system_time)))

        self.memory.node.commits.commit(entry.id, build)

    def verify(self) -> dict[str, object]:
        job = self.memory.finish(self.memory.node.requests.verify(self.chosen, VerifyOptions()))
        value: dict[str, object] = json.loads(job.result or "")
        return value


@pytest.fixture
def story(tmp_path: Path) -> Story:
    found = Story(tmp_path)
    found.push(found.readings, "Kyiv", "Lviv")
    found.push(found.others, "Oslo")
    found.pull()
    return found


def test_the_next_run_makes_the_rows_those_of_the_new_transform(story: Story) -> None:
    changed = story.change("SELECT * FROM b")
    assert changed.evolution is not None
    assert changed.evolution.verdict is EvolutionVerdict.MIGRATION
    assert changed.result is not None
    assert len(changed.result.blocks) == 1
    assert story.records() == [(0, "Kyiv"), (0, "Lviv")]
    story.push(story.others, "Bergen")
    assert story.pull()["rows"] == 4
    assert story.records() == [(0, "Kyiv"), (0, "Lviv"), (1, "Kyiv"), (1, "Lviv"), (0, "Oslo"), (0, "Bergen")]
    assert story.pull()["upToDate"] is True
    story.push(story.others, "Moss")
    assert story.pull()["rows"] == 1
    assert story.verify() == {"ok": True, "errors": []}


def test_a_migration_is_due_without_anything_new_in_the_inputs(story: Story) -> None:
    story.change("SELECT * FROM b")
    assert story.pull()["rows"] == 3
    assert story.events()[-2:] == [SetTransform, ExecuteTransform]
    assert story.verify()["ok"] is True


def test_the_same_in_other_words_leaves_rows_and_state(story: Story) -> None:
    changed = story.change("SELECT  *  FROM a")
    assert changed.evolution is not None
    assert changed.evolution.verdict is EvolutionVerdict.COMPATIBLE
    assert story.pull()["upToDate"] is True
    story.push(story.readings, "Odesa")
    assert story.pull()["rows"] == 1
    assert story.records()[-1] == (0, "Odesa")
    assert story.verify()["ok"] is True


def test_several_changes_before_a_run_are_one(story: Story) -> None:
    story.change("SELECT * FROM b")
    story.change("SELECT  * FROM a")
    assert story.pull()["upToDate"] is True
    assert story.records() == [(0, "Kyiv"), (0, "Lviv")]
    assert story.verify()["ok"] is True


def test_the_transform_that_is_there_already_commits_nothing(story: Story) -> None:
    before = story.memory.node.datasets.head(story.chosen).hash
    assert story.change("SELECT * FROM a").result is None
    assert story.memory.node.datasets.head(story.chosen).hash == before


def test_the_same_transform_takes_up_a_column_that_an_input_has_got(story: Story) -> None:
    story.add_column(story.readings, "note")
    changed = story.change("SELECT * FROM a")
    assert changed.evolution is not None
    assert (changed.evolution.verdict, "`note`" in changed.evolution.reason) == (EvolutionVerdict.MIGRATION, True)
    assert story.change("SELECT * FROM a").result is None, "there is nothing more to take up"
    assert story.events()[-2:] == [SetTransform, SetDataSchema]
    story.pull()
    assert story.pull()["upToDate"] is True
    assert story.verify() == {"ok": True, "errors": []}


def test_a_column_that_an_input_has_got_in_between_is_refused(story: Story) -> None:
    """A column that an input got in between is refused.

    The pull behind it would be: slices have the columns of the schema in their order.
    """
    story.add_column(story.readings, "note", last=False)
    head = story.memory.node.datasets.head(story.chosen).hash
    with pytest.raises(IncompatibleSchema, match="another order"):
        story.change("SELECT * FROM a")
    assert story.memory.node.datasets.head(story.chosen).hash == head


def test_more_columns_are_computed_anew_though_the_query_says_the_same(story: Story) -> None:
    """What an engine keeps of rows between transactions does not have the new one."""
    story.add_column(story.readings, "note")
    changed = story.change("SELECT  *  FROM a")
    assert changed.evolution is not None
    assert changed.evolution.verdict is EvolutionVerdict.MIGRATION
    story.pull()
    # The engine of these tests withdraws all rows in a migration.
    assert story.records()[2:] == [(1, "Kyiv"), (1, "Lviv"), (0, "Kyiv"), (0, "Lviv")]


def test_a_transform_that_never_ran_is_replaced_without_a_verdict(tmp_path: Path) -> None:
    story = Story(tmp_path)
    changed = story.change(
        "SELECT * FROM b", BOTH.replace("datasetRef: readings, alias: a", "datasetRef: readings, alias: c")
    )
    assert changed.result is not None
    assert changed.evolution is None


def test_other_inputs_are_refused_once_it_has_run(story: Story) -> None:
    before = story.memory.node.datasets.head(story.chosen).hash
    one = BOTH.replace(", {datasetRef: others, alias: b}", "")
    with pytest.raises(InvalidRequest, match="inputs") as refused:
        story.change("SELECT * FROM a", one)
    assert "new dataset" in (refused.value.hint or "")
    assert story.memory.node.datasets.head(story.chosen).hash == before


def test_an_alias_of_an_input_may_change(story: Story) -> None:
    story.change("SELECT * FROM z", BOTH.replace("alias: a", "alias: z"))
    story.pull()
    assert story.records()[:2] == [(0, "Kyiv"), (0, "Lviv")]
    assert story.verify()["ok"] is True


def test_what_the_engine_refuses_is_refused(story: Story) -> None:
    with pytest.raises(InvalidQuery):
        story.change("SELECT nope FROM a")


def test_a_dataset_that_is_not_there_and_a_stranger_are_refused(story: Story) -> None:
    with pytest.raises(NotFound):
        story.change("SELECT * FROM b", BOTH.replace("name: chosen", "name: nobody"))
    (snapshot,) = parse_snapshots(BOTH, file="test.yaml")
    with pytest.raises(NotFound):
        story.memory.node.editing.set_transform(snapshot, Subject())


def test_verification_runs_a_migration_again(story: Story) -> None:
    story.change("SELECT * FROM b")
    story.pull()
    story.memory.engine.calls = 0
    assert story.verify()["ok"] is True
    assert story.memory.engine.calls == 2  # both transactions were run again


def replayed(story: Story, *, digest: str | None = None) -> list[ReplayedTransaction]:
    ports = story.memory.node.ports
    found = ReplayPorts(story.memory.node.repository, ports.engine, ports.exchange, ports.objects, ports.clock)
    return replay_transactions(story.chosen, ports=found, blocks_max=1000, digest=digest)[1]


def test_a_replay_records_which_transactions_the_engine_reproduces(story: Story) -> None:
    story.change("SELECT * FROM b")
    story.pull()
    assert [one.reproduced for one in replayed(story)] == [True, True]
    records = list(engine_records(story.chosen.id, objects=story.memory.objects))
    assert sorted(str(record["outcome"]) for record in records) == ["made"] * 2 + ["reproduces"] * 2
    assert {record["engine"] for record in records} == {"memory"}
    assert replayed(story) == replayed(story)
    assert list(engine_records(story.chosen.id, objects=story.memory.objects)) == records
    story.memory.objects.put_bytes(in_dataset(story.chosen.id, "engines/0/0/differs"), b"?")
    with pytest.raises(Corrupt):
        list(engine_records(story.chosen.id, objects=story.memory.objects))


def lose(story: Story, folder: str, *, damaged: bool = False) -> list[str]:
    """Takes the objects of a folder of the dataset away, or their content; their keys."""
    objects = story.memory.objects
    keys = list(objects.keys(in_dataset(story.chosen.id, f"{folder}/")))
    for key in keys:
        objects.delete(key)
        if damaged:
            objects.put_bytes(key, b"?")
    return keys


@pytest.mark.parametrize("damaged", [False, True])
def test_a_replay_puts_back_what_was_lost(story: Story, damaged: bool) -> None:
    story.push(story.readings, "Odesa")
    story.pull()
    lost = {*lose(story, "checkpoints", damaged=damaged), *lose(story, "data", damaged=damaged)}
    story.push(story.readings, "Dnipro")
    with pytest.raises(AssertionError, match="odf system replay"):
        story.pull()
    done = replayed(story)
    assert [one.reproduced for one in done] == [True, True]
    assert {key for one in done for key in one.restored} == lost
    assert len(lost) == 4
    story.pull()
    assert story.records()[-1] == (0, "Dnipro")
    assert story.verify() == {"ok": True, "errors": []}
    assert [one.restored for one in replayed(story)] == [(), (), ()], "nothing more is missing"


def test_the_transform_that_is_there_is_computed_anew_if_asked(story: Story) -> None:
    lose(story, "checkpoints")
    changed = story.change("SELECT * FROM a", anew=True)
    assert changed.evolution is not None
    assert changed.evolution.verdict is EvolutionVerdict.MIGRATION
    assert changed.result is not None
    story.pull()
    # The engine of these tests withdraws all rows in a migration.
    assert story.records()[2:] == [(1, "Kyiv"), (1, "Lviv"), (0, "Kyiv"), (0, "Lviv")]
    assert story.pull()["upToDate"] is True
    story.push(story.readings, "Odesa")
    assert story.pull()["rows"] == 1, "once is enough"
    assert story.change("SELECT * FROM a").result is None


class EngineOfRuns(MemoryEngine):
    """Judges a transform only by running it, as reference engines do."""

    def validate_query(self, request: ValidateRequest) -> ValidateResult:
        return ValidateResult(problems=(), data_schema=None, operator_class=None, keys=())


def test_an_engine_that_cannot_compute_anew_is_not_asked_to(story: Story) -> None:
    """Else each pull would be refused from then on."""
    story.memory.use_engine(EngineOfRuns(story.memory.folder / "exchange"))
    assert story.change("SELECT * FROM a").result is None
    head = story.memory.node.datasets.head(story.chosen).hash
    for query, anew in (("SELECT * FROM a", True), ("SELECT * FROM b", False)):
        with pytest.raises(InvalidRequest, match="cannot change a transform that has run"):
            story.change(query, anew=anew)
    assert story.memory.node.datasets.head(story.chosen).hash == head


def test_a_migration_does_without_the_checkpoint(story: Story) -> None:
    lose(story, "checkpoints")
    story.change("SELECT * FROM b")
    story.pull()
    assert story.records()[-1] == (0, "Oslo")


def test_who_made_a_transaction_is_recorded_with_it(story: Story) -> None:
    memory = story.memory
    objects = memory.objects
    (link,) = [
        one
        for one in memory.node.datasets.log(story.chosen, limit=100)
        if isinstance(one.block.event, ExecuteTransform)
    ]
    assert makers(story.chosen.id, link.hash, objects=objects) == [memory.engine.info().identity]
    others = [one.hash for one in memory.node.datasets.log(story.chosen, limit=100) if one.hash != link.hash]
    assert [makers(story.chosen.id, one, objects=objects) for one in others] == [[]] * len(others)


class OtherEngine(MemoryEngine):
    """An engine that withdraws nothing when a transform is changed."""

    def info(self) -> EngineInfo:
        return replace(super().info(), digest="0ther")

    def migrate_query(self, request: MigrateRequest, *, progress: ProgressListener) -> TransformResult:
        return super().migrate_query(replace(request, output=()), progress=progress)


def test_an_engine_that_gives_other_rows_is_told_block_by_block(story: Story) -> None:
    story.change("SELECT * FROM b")
    story.pull()
    story.memory.use_engine(OtherEngine(story.memory.folder / "exchange"))
    first, second = replayed(story, digest="0th")
    assert (first.reproduced, second.reproduced) == (True, False)
    assert second.message
    outcomes = {record["outcome"] for record in engine_records(story.chosen.id, objects=story.memory.objects)}
    assert outcomes == {"made", "reproduces", "differs"}
    with pytest.raises(InvalidRequest, match="0ther"):
        replayed(story, digest="abc")


def test_no_dataset_is_derived_from_itself(tmp_path: Path) -> None:
    story = Story(tmp_path)
    later = BOTH.replace("name: chosen", "name: later").replace("datasetRef: readings", "datasetRef: chosen")
    entry = story.memory.add(later)
    for name in ("chosen", "later"):
        with pytest.raises(InvalidRequest, match="local/chosen would be derived from itself") as caught:
            story.change("SELECT * FROM b", BOTH.replace("datasetRef: others", f"datasetRef: {name}"))
        assert caught.value.place.field == "inputs"
    assert story.change("SELECT * FROM b").result is not None, "of a dataset that has not run"
    request = PullRequest(dataset=entry.id, alias=entry.alias, recursive=True)
    assert story.memory.finish(story.memory.node.requests.pull(request)).status is JobStatus.SUCCEEDED


def test_a_circle_that_is_there_is_told_and_goes(tmp_path: Path) -> None:
    """A cycle of transforms is reported and can be removed.

    Two transforms that are set at the same moment may make one: neither looks at the other.
    """
    story = Story(tmp_path)

    def build(base: Head) -> PlannedCommit:
        state = story.memory.node.repository.state(story.chosen.id, base.hash)
        assert state.transform is not None
        event = state.transform.event
        assert isinstance(event, SetTransform)
        itself = replace(event.inputs[1], dataset_ref=str(story.chosen.id))
        of_itself = replace(event, inputs=(event.inputs[0], itself))
        return PlannedCommit(tuple(link_blocks(state, [of_itself], system_time=base.system_time)))

    story.memory.node.commits.commit(story.chosen.id, build)
    request = PullRequest(dataset=story.chosen.id, alias=story.chosen.alias, recursive=True)
    job = story.memory.finish(story.memory.node.requests.pull(request))
    assert job.status is JobStatus.FAILED
    assert "local/chosen is derived from itself" in (job.error or "")
    story.memory.node.datasets.delete(story.chosen)


def test_records_of_engines_are_signed(story: Story) -> None:
    """By the key of the dataset; one that was changed is found where it is read."""
    objects, dataset = story.memory.objects, story.chosen.id
    story.push(story.readings, "A")
    story.pull()
    records = list(engine_records(dataset, objects=objects))
    assert {record["signer"] for record in records} == {did_key(dataset.key)}
    key = next(iter(objects.keys(engine_records_prefix(dataset))))
    data = objects.read_bytes(key, size_max=9999)
    objects.delete(key)
    objects.put_bytes(key, data.replace(b'"made"', b'"differs"'))
    with pytest.raises(Corrupt):
        list(engine_records(dataset, objects=objects))
