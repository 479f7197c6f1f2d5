"""The wizard from file to dataset: upload, judgement, choices, trial, rows."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from odfabric.adapters.memory.sources.egress import MemoryPage
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.metadata import AddPushSource, SetPollingSource, SetVocab
from odfabric.model.source import FetchStepUrl, MergeStrategyLedger, ReadStepCsv, ReadStepParquet
from odfabric.usecases.ingestion.staging import STAGING_PREFIX
from tests.services.api.browsing import Browsers, alert_of, field, job_done, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving, working

CSV = "when;city;zip;value\n" + "".join(f"2026-01-{day:02}T00:00:00Z;Ulm;01234;{day}\n" for day in range(1, 10))
BAD = CSV + "2026-02-01T00:00:00Z;<b>;2;abc\n"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    with serving(people.node) as served, working(people.node):
        yield Browsers(people, served)


@pytest.fixture
def ann(site: Browsers) -> Iterator[httpx.Client]:
    with site.open("ann") as found:
        yield found


def uploaded(browser: httpx.Client, text: str | bytes, name: str = "weather.csv") -> httpx.Response:
    """The page of a file, once it is judged."""
    answer = browser.post("/-/new/file", files={"file": (name, text, "application/octet-stream")})
    return job_done(browser, answer)


def form_of(page: httpx.Response) -> dict[str, str]:
    """What a browser would send of the main form."""
    text = re.search(r'<form[^>]* class="fields wide-fields">.*?</form>', page.text, re.DOTALL)
    assert text, page.text
    form = {}
    for tag in re.findall(r"<input[^>]*>", text[0]):
        name, value = re.search(r' name="([^"]+)"', tag), re.search(r' value="([^"]*)"', tag)
        assert name
        assert value
        if 'type="text"' in tag or " checked" in tag:
            form[name[1]] = value[1]
    for name, options in re.findall(r'<select name="(\w+)"[^>]*>(.*?)</select>', text[0], re.DOTALL):
        chosen = re.search(r'value="([^"]*)" selected', options) or re.search(r'value="([^"]*)"', options)
        form[name] = chosen[1] if chosen else ""
    return form


def done(browser: httpx.Client, page: httpx.Response, **changed: str) -> httpx.Response:
    """The answer to the form of a file, with some choices changed."""
    return browser.post(page.url.path, data={**form_of(page), **changed})


def stored(site: Browsers) -> list[str]:
    return list(site.people.memory.objects.keys(""))


def staged(site: Browsers) -> list[str]:
    return list(site.people.memory.objects.keys(STAGING_PREFIX))


def test_all_rows_tell_columns_types_and_why(ann: httpx.Client) -> None:
    page = uploaded(ann, BAD)
    form = form_of(page)
    assert form["name"] == "weather"
    assert [form[f"c{number}_type"] for number in range(4)] == ["Timestamp", "String", "String", "String"]
    text = text_of(page)
    assert "10 rows" in text
    assert "9 of 10 values are no integers, the first in line 2: 01234" in text
    assert "1 of 10 values are no integers, the first in line 11: abc" in text
    assert "<b>" not in page.text
    assert form["event_time"] == "when"


def test_a_trial_tells_what_is_refused_and_commits_nothing(site: Browsers, ann: httpx.Client) -> None:
    page = uploaded(ann, BAD)
    before = stored(site)
    tried = job_done(ann, done(ann, page, name="trial", c3_type="Int64", action="try"))
    assert "would be refused" in alert_of(tried)
    text = text_of(tried)
    assert "11 value abc is no integer that fits write a whole number such as 12" in text
    assert form_of(tried)["c3_type"] == "Int64"
    assert ann.get("/ann/trial").status_code == 404
    again = job_done(ann, done(ann, tried, c3_type="String", action="try"))
    text = text_of(again)
    assert "Rows read 10" in text
    assert "Records added +10" in text
    assert "Refused none" in text
    assert "AddPushSource" in text
    assert ann.get("/ann/trial").status_code == 404
    assert stored(site) == before
    assert list((site.people.memory.folder / "exchange").iterdir()) == []


def test_what_was_tried_is_made_and_pushed_without_a_second_upload(site: Browsers, ann: httpx.Client) -> None:
    page = uploaded(ann, BAD)
    before = staged(site)
    made = done(ann, page, name="made", owner="ann", visibility="public", c1_key="yes", action="make")
    shown = job_done(ann, made)
    assert "Records added 10" in text_of(shown)
    assert "10 records" in text_of(ann.get("/ann/made"))
    assert len(staged(site)) == len(before) - 1
    # The file is the dataset's now.
    gone = ann.post(page.url.path, data={**form_of(page), "name": "again", "action": "make"})
    assert gone.status_code == 404
    assert "choose the file again" in text_of(gone)
    with site.open(None) as stranger:
        assert stranger.get("/ann/made").status_code == 200


def test_the_choices_are_those_of_the_manifest(ann: httpx.Client) -> None:
    page = uploaded(ann, CSV)
    shown = done(ann, page, name="weather", c1_key="yes", c2_type="Int64", merge="ledger", action="manifest")
    vocabulary, source = parse_snapshots(field(shown, "manifest"))[0].metadata
    assert isinstance(vocabulary, SetVocab)
    assert vocabulary.event_time_column == "when"
    assert isinstance(source, AddPushSource)
    assert isinstance(source.read, ReadStepCsv)
    assert (source.read.separator, source.read.header) == (";", True)
    assert source.merge == MergeStrategyLedger(primary_key=("city",))
    assert source.read.schema is not None
    assert [declared.name for declared in source.read.schema.fields] == ["when", "city", "zip", "value"]


def test_rows_that_cannot_be_read_are_listed_and_keep_the_push_away(ann: httpx.Client) -> None:
    page = uploaded(ann, '{"city":"Ulm","value":1}\n{"city":\n[1]\n{"city":"Bonn","value":2}\n', "rows.ndjson")
    text = text_of(page)
    assert "2 rows cannot be read" in text
    assert "write one JSON object on each line" in text
    tried = job_done(ann, done(ann, page, action="try"))
    assert "would be refused" in alert_of(tried)


def test_a_file_is_read_again_as_it_is_said_to_be_written(ann: httpx.Client) -> None:
    page = uploaded(ann, "1|Ulm\n2|Bonn\n", "values.csv")
    again = ann.post(page.url.path, data={"format": "csv", "header": "no", "separator": "pipe", "action": "shape"})
    other = job_done(ann, again)
    form = form_of(other)
    assert (form["c0_name"], form["c0_type"], form["c1_type"]) == ("column_1", "Int64", "String")
    made = job_done(ann, done(ann, other, name="values", c0_name="id", c1_name="city", event_time="", action="make"))
    assert "Records added 2" in text_of(made)


def test_a_parquet_file_says_itself_what_it_has(ann: httpx.Client) -> None:
    written = io.BytesIO()
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.int32()), "city": ["Ulm", None]}), written)
    page = uploaded(ann, written.getvalue(), "cities.parquet")
    assert "INT" in text_of(page)
    assert "2 rows" in text_of(page)
    shown = done(ann, page, merge="ledger", c0_key="yes", action="manifest")
    (source,) = parse_snapshots(field(shown, "manifest"))[0].metadata
    assert isinstance(source, AddPushSource)
    assert source.read == ReadStepParquet()
    assert source.merge == MergeStrategyLedger(primary_key=("id",))


def test_a_file_on_the_web_is_fetched_judged_and_polled(site: Browsers, ann: httpx.Client) -> None:
    url = "https://data.example/weather.csv?day=1"
    site.people.memory.http.pages[url] = MemoryPage(body=BAD.encode())
    page = job_done(ann, ann.post("/-/new/file/url", data={"url": url}))
    assert "1 of 10 values are no integers" in text_of(page)
    shown = done(ann, page, name="polled", action="manifest")
    (source,) = [
        each for each in parse_snapshots(field(shown, "manifest"))[0].metadata if isinstance(each, SetPollingSource)
    ]
    assert source.fetch == FetchStepUrl(url=url)
    tried = job_done(ann, done(ann, page, name="polled", action="try"))
    assert "Records added +10" in text_of(tried)
    made = job_done(ann, done(ann, page, name="polled", action="make"))
    assert "Records added 10" in text_of(made)


@pytest.mark.parametrize(
    ("text", "name", "said"),
    [
        ('a,b\n1,"open\n', "a.csv", "Line 2, column 3: A quoted value is not closed"),
        ("a,a\n1,2\n", "a.csv", "two columns are called `a`"),
        ("[1]", "a.json", "a row must be an object"),
        ('[{"a": 1}', "a.json", "the array is not closed"),
        (b"a\n1\n\xff\n", "a.csv", "Line 3: not UTF-8 text"),
        ("PAR1", "a.parquet", "Not a readable Parquet file"),
    ],
)
def test_what_cannot_be_read_at_all_is_told_by_its_place(
    ann: httpx.Client, text: str | bytes, name: str, said: str
) -> None:
    page = uploaded(ann, text, name)
    assert said in alert_of(page)
    assert "Read it again as this" in text_of(page)


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"merge": "ledger"}, 400, "by a key"),
        ({"event_time": "city"}, 400, "`city` holds no times"),
        ({"c0_type": "Nonsense"}, 400, "'Nonsense' is no choice"),
        ({"name": "no--name"}, 400, "DatasetName"),
        ({"owner": "rita"}, 403, "ann may not create"),
        ({"action": "format"}, 400, "'format' is no choice"),
    ],
)
def test_refusals_keep_the_choices(ann: httpx.Client, given: dict[str, str], status: int, said: str) -> None:
    answer = done(ann, uploaded(ann, CSV), **{"action": "try", **given})
    assert answer.status_code == status
    assert said in alert_of(answer)
    assert form_of(answer)["name"] == given.get("name", "weather")


def test_a_name_that_is_taken_is_told_before_the_trial(site: Browsers, ann: httpx.Client) -> None:
    site.people.add("ann", "taken")
    answer = done(ann, uploaded(ann, CSV), name="taken", action="try")
    assert (answer.status_code, "a dataset named ann/taken exists" in alert_of(answer)) == (409, True)


def test_without_a_file_the_form_says_so(ann: httpx.Client) -> None:
    answer = ann.post("/-/new/file", files={"file": ("", b"", "application/octet-stream")})
    assert (answer.status_code, "there is no file" in alert_of(answer)) == (400, True)
    empty = ann.post("/-/new/file", files={"file": ("a.csv", b"", "text/csv")})
    assert (empty.status_code, "the file is empty" in alert_of(empty)) == (400, True)


def test_scripts_send_the_file_as_it_is(ann: httpx.Client) -> None:
    answer = ann.post(
        "/-/new/file",
        content=CSV.encode(),
        headers={
            "accept": "application/json",
            "content-type": "application/octet-stream",
            "content-disposition": "attachment; filename*=UTF-8''caf%C3%A9.csv",
        },
    )
    assert answer.status_code == 201
    page = job_done(ann, httpx.Response(303, headers={"location": answer.headers["location"]}, text=""))
    assert "café.csv" in text_of(page)


def test_files_of_others_do_not_exist(site: Browsers, ann: httpx.Client) -> None:
    path = uploaded(ann, CSV).url.path
    for name in ("rita", "root"):
        with site.open(name) as other:
            assert other.get(path).status_code == 404
            assert other.post(path, data={"action": "discard"}).status_code == 404
    with site.open(None) as stranger:
        assert stranger.get(path).status_code == 303


def test_a_file_is_discarded(site: Browsers, ann: httpx.Client) -> None:
    page = uploaded(ann, CSV)
    before = staged(site)
    assert ann.post(page.url.path, data={"action": "discard"}).headers["location"] == "/-/new/file"
    assert len(staged(site)) == len(before) - 1
    assert ann.get(page.url.path).status_code == 404
