"""The wizard from a file to a dataset: what the sample shows, what is chosen, the manifest, and the first push."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest

from odfabric.formats.manifest_yaml import parse_snapshots
from odfabric.model.metadata import AddPushSource, SetVocab
from odfabric.model.source import MergeStrategyLedger, ReadStepCsv, ReadStepNdJson, ReadStepParquet
from tests.services.api.browsing import Browsers, alert_of, field, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving, working

CSV = "when;city;zip;value\n" + "".join(f"2026-01-{day:02};Ulm;01234;{day}\n" for day in range(1, 10)) + ";<b>;2;abc\n"
CHOSEN = {"name": "weather", "owner": "ann", "visibility": "public", "format": "csv", "separator": "semicolon"}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    with serving(people.node) as served, working(people.node):
        yield Browsers(people, served)


@pytest.fixture
def ann(site: Browsers) -> Iterator[httpx.Client]:
    with site.open("ann") as found:
        yield found


def form_of(page: httpx.Response) -> dict[str, str]:
    """What a browser would send of the table and the choices below it."""
    form = {}
    for tag in re.findall(r'<input[^>]* name="c\d+_\w+"[^>]*>', page.text):
        name, value = re.search(r' name="([^"]+)"', tag), re.search(r' value="([^"]*)"', tag)
        assert name
        assert value
        if 'type="text"' in tag or " checked" in tag:
            form[name[1]] = value[1]
    for name, options in re.findall(r'<select name="(\w+)"[^>]*>(.*?)</select>', page.text, re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', options)
        form[name] = chosen[1] if chosen else ""
    return form


def test_the_sample_tells_columns_types_and_why(ann: httpx.Client) -> None:
    page = ann.post("/-/new/file", data={**CHOSEN, "sample": CSV.replace("\n", "\r\n"), "action": "columns"})
    assert page.status_code == 200
    form = form_of(page)
    assert [form[f"c{number}_type"] for number in range(4)] == ["Date", "String", "String", "String"]
    text = text_of(page)
    assert "It is missing in one row." in text
    assert "9 of 10 values are no integers, the first in line 2: 01234" in text
    assert "1 of 10 values are no integers, the first in line 11: abc" in text
    assert "<b>" not in page.text
    assert form["event_time"] == "when"
    assert field(page, "sample").strip() == CSV.strip()
    assert 'value="public" checked' in page.text


def test_the_choices_make_a_manifest_and_that_the_dataset(site: Browsers, ann: httpx.Client) -> None:
    sent = {**CHOSEN, "sample": CSV}
    table = form_of(ann.post("/-/new/file", data={**sent, "action": "columns"}))
    chosen = {**sent, **table, "c1_key": "yes", "c3_name": "amount", "c3_type": "Int64", "merge": "ledger"}
    page = ann.post("/-/new/file", data={**chosen, "action": "manifest"})
    assert page.status_code == 200
    manifest = field(page, "manifest")
    (snapshot,) = parse_snapshots(manifest)
    vocabulary, source = snapshot.metadata
    assert isinstance(vocabulary, SetVocab)
    assert vocabulary.event_time_column == "when"
    assert isinstance(source, AddPushSource)
    assert isinstance(source.read, ReadStepCsv)
    assert (source.read.separator, source.read.header) == (";", True)
    assert source.merge == MergeStrategyLedger(primary_key=("city",))
    assert source.read.schema is not None
    assert [field.name for field in source.read.schema.fields] == ["when", "city", "zip", "amount"]
    made = ann.post(
        "/-/new/manifest", data={"manifest": manifest, "owner": "ann", "visibility": "public", "then": "push"}
    )
    assert (made.status_code, made.headers["location"]) == (303, "/ann/weather/-/push")
    assert 'data-upload="/ann/weather/ingest"' in ann.get("/ann/weather/-/push").text


def test_from_a_sample_of_json_to_rows(ann: httpx.Client) -> None:
    rows = '{"event_time":"2026-01-01T00:00:00Z","city":"Ulm","value":1}\n{"event_time":"2026-01-02T00:00:00Z","city":"Ulm"}'
    sent = {"name": "json-rows", "owner": "ann", "format": "ndjson", "sample": rows}
    table = form_of(ann.post("/-/new/file", data={**sent, "action": "columns"}))
    page = ann.post("/-/new/file", data={**sent, **table, "action": "manifest"})
    manifest = field(page, "manifest")
    (source,) = parse_snapshots(manifest)[0].metadata  # `event_time` is the name that it has anyway
    assert isinstance(source, AddPushSource)
    assert isinstance(source.read, ReadStepNdJson)
    ann.post("/-/new/manifest", data={"manifest": manifest, "owner": "ann"})
    pushed = ann.post("/ann/json-rows/-/push", data={"rows": rows})
    assert "Records added 2" in text_of(ann.get(pushed.headers["location"]))


def test_a_parquet_file_tells_its_columns_itself(ann: httpx.Client) -> None:
    sent = {
        "name": "files",
        "owner": "ann",
        "format": "parquet",
        "merge": "ledger",
        "keys": "a, b",
        "action": "manifest",
    }
    (source,) = parse_snapshots(field(ann.post("/-/new/file", data=sent), "manifest"))[0].metadata
    assert isinstance(source, AddPushSource)
    assert source.read == ReadStepParquet()
    assert source.merge == MergeStrategyLedger(primary_key=("a", "b"))


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"sample": ""}, 400, "there is no sample"),
        ({"sample": "a;b\n1;2;3\n"}, 422, "Line 2: 3 cells where the first row has 2"),
        ({"sample": "a;a\n1;2\n"}, 400, "two columns are called `a`"),
        ({"format": "json", "sample": "[1]"}, 422, "no JSON object"),
        ({"format": "excel", "sample": "x"}, 400, "'excel' is no choice"),
        ({"separator": "space", "sample": "x"}, 400, "unknown separator"),
        ({"sample": CSV, "c0_name": "a", "c0_type": "Int64", "merge": "ledger"}, 400, "a key"),
        ({"sample": CSV, "c0_name": "a", "c0_type": "Int64", "event_time": "a"}, 400, "`a` holds no times"),
        ({"sample": CSV, "c0_name": "a", "c0_type": "Nonsense"}, 400, "'Nonsense' is no choice"),
        ({"name": "no--name", "sample": CSV, "c0_name": "a", "c0_type": "Int64"}, 400, "DatasetName"),
    ],
)
def test_refusals_keep_the_form(ann: httpx.Client, given: dict[str, str], status: int, said: str) -> None:
    sent = {**CHOSEN, "action": "manifest", **given}
    answer = ann.post("/-/new/file", data=sent)
    assert answer.status_code == status
    assert said in alert_of(answer)
    assert field(answer, "name") == sent["name"]
    assert field(answer, "sample").strip() == sent["sample"].strip()


def test_of_a_long_sample_the_whole_lines_are_looked_at(ann: httpx.Client) -> None:
    sample = "a;b\n" + "1;2\n" * 17_000 + "1;2;3\n"
    page = ann.post("/-/new/file", data={**CHOSEN, "sample": sample, "action": "columns"})
    assert page.status_code == 200
    assert "All 16383 values are of the type Int64." in text_of(page)
