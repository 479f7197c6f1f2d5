"""Changing a root dataset's sources: commits, allowed rows, refusals."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.domain.chain.schema_evolution import current_schema
from odfabric.errors import IncompatibleSchema, InvalidManifest, InvalidRequest, LimitExceeded, NotFound
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.metadata import AddData, AddPushSource, Seed, SetDataSchema
from odfabric.testing.memory_node import START, MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.ingestion.set_source import ChangedSources
from odfabric.usecases.reading.read_tail import ReadTail
from tests.usecases.manifests import DERIVED, POLLED, ROOT

VALUE = "- {name: value, type: {kind: Option, inner: Int64}}"
UNIT = f"{VALUE}\n        - {{name: unit, type: {{kind: Option, inner: String}}}}"
MORE = ROOT.replace(VALUE, UNIT)
SECOND = ROOT[ROOT.index("  - kind: AddPushSource") :].replace("sourceName: default", "sourceName: other")


class Story:
    """A root dataset whose sources are changed."""

    def __init__(self, folder: Path) -> None:
        self.memory = MemoryNode(folder)
        self.readings = self.memory.add(ROOT)

    def push(self, *rows: dict[str, object], source: str | None = None) -> Job:
        lines = [json.dumps({"event_time": "2026-01-01T00:00:00Z", **row}) for row in rows]
        body = iter(["\n".join(lines).encode()])
        request = PushData(dataset=self.readings.id, body=body, source_name=source)
        job = self.memory.node.requests.push(request)
        assert isinstance(job, Job)
        return self.memory.finish(job)

    def change(self, manifest: str) -> ChangedSources:
        (snapshot,) = parse_snapshots(manifest, file="test.yaml")
        return self.memory.node.editing.set_source(snapshot, self.memory.node.operator)

    def rows(self, entry: CatalogEntry) -> list[tuple[object, object]]:
        asked = ReadTail(skip=0, limit=1000, data_format="JsonAoS", schema_format=None)
        rows = self.memory.node.rows.tail(entry, asked)["data"]
        return [(row["city"], row.get("unit", "no such column")) for row in rows]  # type: ignore[attr-defined]

    def events(self) -> list[type]:
        return [type(link.block.event) for link in self.memory.node.datasets.log(self.readings, limit=100)][::-1]

    def columns(self) -> list[str]:
        schema = current_schema(self.memory.node.repository.current(self.readings.id)[1])
        assert schema is not None
        return [field.name for field in schema.fields[4:]]


@pytest.fixture
def story(tmp_path: Path) -> Story:
    found = Story(tmp_path)
    assert found.push({"city": "Kyiv"}).status is JobStatus.SUCCEEDED
    return found


def test_a_new_optional_column_comes_with_its_source_in_one_commit(story: Story) -> None:
    before = story.memory.node.datasets.head(story.readings)
    changed = story.change(MORE)
    assert (changed.sources, changed.columns) == (("the source `default`",), ("unit",))
    assert changed.result is not None
    assert len(changed.result.blocks) == 2
    assert story.memory.node.datasets.head(story.readings) != before
    assert story.events() == [Seed, AddPushSource, SetDataSchema, AddData, AddPushSource, SetDataSchema]
    assert story.push({"city": "Lviv", "unit": "m"}, {"city": "Odesa"}).status is JobStatus.SUCCEEDED
    assert story.rows(story.readings) == [("Kyiv", None), ("Lviv", "m"), ("Odesa", None)]
    assert story.columns() == ["city", "value", "unit"]


def test_the_same_sources_change_nothing(story: Story) -> None:
    head = story.memory.node.datasets.head(story.readings)
    assert story.change(ROOT) == ChangedSources(story.readings, None)
    story.change(MORE)
    assert story.change(MORE).result is None
    value = ChangedSources(story.readings, None).to_value(head)
    assert (value["blocks"], value["sources"], value["columns"]) == ([], [], [])


def test_before_the_first_rows_any_columns_may_be_declared(tmp_path: Path) -> None:
    story = Story(tmp_path)
    changed = story.change(ROOT.replace(VALUE, "- {name: amount, type: Int32}"))
    assert (changed.columns, story.events()) == ((), [Seed, AddPushSource, AddPushSource])
    assert story.push({"city": "Kyiv", "amount": 1}).status is JobStatus.SUCCEEDED
    assert story.columns() == ["city", "amount"]


def test_another_strategy_leaves_the_columns(story: Story) -> None:
    ledger = ROOT.replace("{kind: Append}", "{kind: Ledger, primaryKey: [city]}")
    assert (story.change(ledger).columns, story.columns()) == ((), ["city", "value"])
    assert story.push({"city": "Kyiv", "value": 1}, {"city": "Lviv"}).status is JobStatus.SUCCEEDED
    assert [city for city, _ in story.rows(story.readings)] == ["Kyiv", "Lviv"]


def test_a_second_source_beside_the_first(story: Story) -> None:
    assert story.change(ROOT + SECOND).sources == ("the source `other`",)
    assert story.push({"city": "Lviv"}, source="other").status is JobStatus.SUCCEEDED
    with pytest.raises(IncompatibleSchema, match="the source `other` does not give the column `unit`"):
        story.change(MORE)
    as_number = UNIT.replace("inner: String", "inner: Int32")
    with pytest.raises(IncompatibleSchema, match="`other` does not fit the dataset: field 'unit' changed its type"):
        story.change(MORE + SECOND.replace(VALUE, as_number))
    assert story.change((ROOT + SECOND).replace(VALUE, UNIT)).columns == ("unit",)
    for name in ("default", "other"):
        assert story.push({"city": "Lviv", "unit": "m"}, source=name).status is JobStatus.SUCCEEDED


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ("", "'value' was removed"),
        ("- {name: value, type: {kind: Option, inner: Int32}}", "'value' changed its type"),
        (f"{VALUE}\n        - {{name: unit, type: String}}", "'unit' was added and is not optional"),
        (f"{UNIT.splitlines()[1].strip()}\n        {VALUE}", "another order"),
    ],
)
def test_columns_that_earlier_rows_do_not_fit_are_refused(story: Story, columns: str, said: str) -> None:
    before = story.events()
    with pytest.raises(IncompatibleSchema, match=said) as refused:
        story.change(ROOT.replace(VALUE, columns))
    assert "local/readings: the source `default`" in refused.value.message
    assert refused.value.hint
    assert story.events() == before


def test_what_has_no_such_sources_is_refused(story: Story) -> None:
    copied = story.memory.add(DERIVED)
    polled = POLLED[POLLED.index("  - kind: SetPollingSource") :]
    no_source = (
        ROOT[: ROOT.index("  metadata:")] + "  metadata:\n  - {kind: SetInfo, description: none, keywords: []}\n"
    )
    for manifest, error, said in [
        (ROOT.replace("readings", "copied"), InvalidRequest, "derivative"),
        (ROOT.replace("readings", "nobody"), NotFound, "nobody"),
        (ROOT[: ROOT.index("  - kind: AddPushSource")] + polled, InvalidManifest, "push sources are still active"),
        (no_source, InvalidManifest, "has no source"),
        (ROOT.replace("{kind: Append}", "{kind: Ledger, primaryKey: [town]}"), InvalidManifest, "`town`"),
    ]:
        with pytest.raises(error, match=said):
            story.change(manifest)
    assert len(story.memory.node.repository.current(copied.id)[1].push_sources) == 0


def test_a_derivative_dataset_takes_the_column_up_when_it_is_told_to(story: Story) -> None:
    copied = story.memory.add(DERIVED)

    def pull() -> Job:
        request = PullRequest(dataset=copied.id, alias=copied.alias)
        return story.memory.finish(story.memory.node.requests.pull(request))

    assert pull().status is JobStatus.SUCCEEDED
    story.change(MORE)
    story.push({"city": "Lviv", "unit": "m"})
    assert pull().status is JobStatus.FAILED
    (snapshot,) = parse_snapshots(DERIVED, file="test.yaml")
    story.memory.node.editing.set_transform(snapshot, story.memory.node.operator)
    assert pull().status is JobStatus.SUCCEEDED
    assert story.rows(copied)[-1] == ("Lviv", "m")


def test_what_was_polled_stays_of_its_kind(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    polled = memory.add(POLLED)
    row = {"event_time": "2026-01-01T00:00:00Z", "city": "Kyiv"}
    memory.files.add("arrivals/1.ndjson", json.dumps(row).encode(), modified_at=START)
    request = PullRequest(dataset=polled.id, alias=polled.alias)
    job = memory.finish(memory.node.requests.pull(request))
    assert job.status is JobStatus.SUCCEEDED, job.error
    url = "fetch: {kind: Url, url: 'https://example.com/rows.ndjson'}"
    other = POLLED.replace("fetch: {kind: FilesGlob, path: 'arrivals/*.ndjson'}", url)
    assert other != POLLED
    (snapshot,) = parse_snapshots(other, file="test.yaml")
    with pytest.raises(InvalidRequest, match="stays of its kind"):
        memory.node.editing.set_source(snapshot, memory.node.operator)


def test_a_polling_source_takes_the_place_of_its_own(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    polled = memory.add(POLLED)
    (snapshot,) = parse_snapshots(POLLED.replace("arrivals/*", "more/*"), file="test.yaml")
    assert memory.node.editing.set_source(snapshot, memory.node.operator).sources == ("the polling source",)
    source = memory.node.repository.current(polled.id)[1].polling_source
    assert source is not None
    assert "more/*" in str(source.event.fetch)


@pytest.mark.parametrize("maximum", [64, 65])
def test_names_of_declared_columns_have_a_limit(tmp_path: Path, maximum: int) -> None:
    memory = MemoryNode(tmp_path)
    memory.use_database(memory.store, column_name_bytes_max=maximum)
    long = ROOT.replace("name: value", f"name: {'v' * 65}")
    if maximum == 65:
        assert memory.add(long)
        return
    with pytest.raises(LimitExceeded) as refused:
        memory.add(long)
    assert refused.value.limit == "column_name_bytes_max"
    assert refused.value.place.field == "metadata[0].read.schema"


@pytest.mark.parametrize(
    ("manifest", "place"),
    [
        (ROOT.replace("name: value", "name: City"), "metadata[0].read.schema"),
        (ROOT.replace("name: value", "name: Event_Time"), "metadata[0].read.schema"),
        (ROOT.replace("name: value", r'name: "a\tb"'), "metadata[0].read.schema"),
        (ROOT.replace("name: value", 'name: " "'), "metadata[0].read.schema"),
        (POLLED.replace("name: city", "name: OP").replace(", city]", "]"), "metadata[0].read.schema"),
        (f"{ROOT}  - {{kind: SetVocab, offsetColumn: t, eventTimeColumn: T}}\n", "metadata[1]"),
    ],
)
def test_names_that_no_dataset_can_have_are_refused_in_a_manifest(tmp_path: Path, manifest: str, place: str) -> None:
    with pytest.raises(InvalidManifest) as refused:
        MemoryNode(tmp_path).add(manifest)
    assert refused.value.place.field == place


def test_names_that_a_dataset_has_stay(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    long = ROOT.replace("name: value", f"name: {'v' * 100}")
    readings = memory.add(long)
    body = iter([json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": "Kyiv"}).encode()])
    job = memory.node.requests.push(PushData(dataset=readings.id, body=body))
    assert isinstance(job, Job)
    assert memory.finish(job).status is JobStatus.SUCCEEDED
    memory.use_database(memory.store, column_name_bytes_max=50)
    (snapshot,) = parse_snapshots(long + SECOND.replace("name: value", f"name: {'v' * 100}"), file="test.yaml")
    assert memory.node.editing.set_source(snapshot, memory.node.operator).sources == ("the source `other`",)
    (snapshot,) = parse_snapshots(long.replace(f"{'v' * 100},", f"{'w' * 100},"), file="test.yaml")
    with pytest.raises(LimitExceeded):
        memory.node.editing.set_source(snapshot, memory.node.operator)


@pytest.mark.parametrize(
    ("fetch", "field"),
    [
        ("{kind: Url, url: 'ftp://host.invalid/x.csv'}", "fetch.url"),
        ("{kind: Url, url: 'https://host.invalid/${{ HOST }}'}", "fetch.url"),
        (
            "{kind: Url, url: 'https://host.invalid', headers: [{name: A, value: '${{ env.A'}]}",
            "fetch.headers[0].value",
        ),
    ],
)
def test_a_source_that_never_runs_here_is_refused_when_it_is_declared(tmp_path: Path, fetch: str, field: str) -> None:
    memory = MemoryNode(tmp_path)
    never = POLLED.replace("{kind: FilesGlob, path: 'arrivals/*.ndjson'}", fetch)
    with pytest.raises(InvalidManifest) as refused:
        memory.add(never)
    assert refused.value.place.field == f"metadata[0].{field}"
    assert memory.node.datasets.page(after=None, limit=10) == []
    entry = memory.add(POLLED)
    (snapshot,) = parse_snapshots(never, file="test.yaml")
    with pytest.raises(InvalidManifest):
        memory.node.editing.set_source(snapshot, memory.node.operator)
    assert len(list(memory.node.datasets.log(entry, limit=10))) == 2


@pytest.mark.parametrize(
    ("option", "hint"),
    [
        ("encoding: klingon", "utf-8"),
        ("timestampFormat: 'dd/MM/yyyy HH:mm'", "%d/%m/%Y %H:%M"),
        ("dateFormat: '%Q'", "%Y"),
    ],
)
def test_text_options_that_read_nothing_are_refused_when_a_source_is_declared(
    tmp_path: Path, option: str, hint: str
) -> None:
    memory = MemoryNode(tmp_path)
    for manifest in (ROOT, POLLED):
        with pytest.raises(InvalidManifest) as refused:
            memory.add(manifest.replace("kind: NdJson", f"kind: NdJson\n      {option}"))
        assert refused.value.place.field == f"metadata[0].read.{option.partition(':')[0]}"
        assert hint in (refused.value.hint or "")
