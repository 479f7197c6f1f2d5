"""Settings of a dataset: round trips, placed errors, confirmed deletion.

What is shown can be set again; deleting asks for the name.
"""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from odfabric.model.people.account import DatasetRole
from tests.services.api.browsing import Browsers, alert_of, field, job_done, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving, working
from tests.usecases.manifests import DERIVED, ROOT

DERIVED_OF_ANN = DERIVED.replace("datasetRef: readings", "datasetRef: ann/readings, alias: readings")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    readings = people.add("ann", "readings")
    people.grant(readings, "edda", DatasetRole.EDITOR)
    people.grant(readings, "rita", DatasetRole.READER)
    people.add("ann", "copied", manifest=DERIVED_OF_ANN)
    with serving(people.node) as served, working(people.node):
        yield Browsers(people, served)


@pytest.fixture
def ann(site: Browsers) -> Iterator[httpx.Client]:
    with site.open("ann") as found:
        yield found


@pytest.mark.parametrize("name", ["readings", "copied"])
def test_what_is_shown_can_be_set_again(ann: httpx.Client, name: str) -> None:
    path = f"/ann/{name}/-/settings"
    shown = field(ann.get(path), "manifest")
    assert f"name: ann/{name}" in shown
    answer = ann.post(path, data={"manifest": shown.replace("\n", "\r\n")})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}?done=unchanged")
    assert "it is so already" in text_of(ann.get(answer.headers["location"]))


def test_inputs_are_shown_by_their_names(ann: httpx.Client) -> None:
    shown = field(ann.get("/ann/copied/-/settings"), "manifest")
    assert "datasetRef: ann/readings" in shown
    assert "did:odf" not in shown


def test_a_source_is_changed_by_whoever_may_write(site: Browsers) -> None:
    with site.open("edda") as edda:
        path = "/ann/readings/-/settings"
        page = edda.get(path)
        assert "Delete this dataset" not in page.text
        changed = field(page, "manifest").replace("kind: Append", "kind: Ledger\n      primaryKey:\n      - city")
        answer = edda.post(path, data={"manifest": changed})
        assert (answer.status_code, answer.headers["location"]) == (303, f"{path}?done=changed")
        assert "Ledger" in field(edda.get(path), "manifest")
    with site.open("rita") as rita:
        assert rita.get(path).status_code == 403


def test_what_is_wrong_is_told_at_its_place_and_the_text_is_kept(ann: httpx.Client) -> None:
    path = "/ann/readings/-/settings"
    wrong = field(ann.get(path), "manifest").replace("kind: NdJson", "kind: Nonsense")
    answer = ann.post(path, data={"manifest": wrong})
    assert answer.status_code == 422
    assert f"Line {1 + wrong[: wrong.index('kind: Nonsense')].count(chr(10))}," in alert_of(answer)
    assert field(answer, "manifest").strip() == wrong.strip()
    other = ann.post(path, data={"manifest": wrong.replace("Nonsense", "NdJson").replace("ann/readings", "ann/other")})
    assert other.status_code == 400
    assert "not of ann/readings" in alert_of(other)


def test_a_transform_that_the_engine_refuses_is_told_in_the_manifest(ann: httpx.Client) -> None:
    path = "/ann/copied/-/settings"
    wrong = field(ann.get(path), "manifest").replace("SELECT * FROM readings", "SELECT city FROM readings")
    answer = ann.post(path, data={"manifest": wrong})
    assert answer.status_code == 400
    assert f"Line {1 + wrong[: wrong.index('SELECT')].count(chr(10))}" in alert_of(answer)


def test_a_transform_can_be_computed_from_the_beginning(ann: httpx.Client) -> None:
    rows = '{"event_time":"2026-01-01T00:00:00Z","city":"Ulm","value":1}'
    assert ann.post("/ann/readings/-/push", data={"rows": rows}).status_code == 303
    job_done(ann, ann.post("/ann/copied/-/pull", data={}))
    path = "/ann/copied/-/settings"
    answer = ann.post(path, data={"manifest": field(ann.get(path), "manifest"), "anew": "yes"})
    assert answer.headers["location"] == f"{path}?done=migration"
    assert "from the beginning" in text_of(ann.get(answer.headers["location"]))


SAID = {
    "description": "Where <b>buses</b> are",
    "keywords": "bus, stop, bus",
    "readme": "# Buses\r\n\r\nEvery stop once.",
    "license_short": "CC0-1.0",
    "license_url": "https://example.org/cc0",
}


def test_a_dataset_says_what_its_editor_wrote(site: Browsers, ann: httpx.Client) -> None:
    site.people.add("ann", "buses")
    path = "/ann/buses/-/settings"
    answer = ann.post("/ann/buses/-/info", data={**SAID, "seen": field(ann.get(path), "seen")})
    assert (answer.status_code, answer.headers["location"]) == (303, f"{path}?done=info-changed")
    page = ann.get(path)
    assert field(page, "keywords") == "bus, stop"
    assert field(page, "readme").strip() == "# Buses\n\nEvery stop once."
    overview = ann.get("/ann/buses")
    assert "Where &lt;b&gt;buses&lt;/b&gt; are" in overview.text
    assert "Every stop once." in text_of(overview)
    assert "CC0-1.0" in text_of(overview)
    again = ann.post("/ann/buses/-/info", data={**SAID, "keywords": "bus, stop"})
    assert again.headers["location"] == f"{path}?done=unchanged"


def test_the_second_editor_sees_what_the_first_wrote(site: Browsers, ann: httpx.Client) -> None:
    site.people.add("ann", "shared")
    path = "/ann/shared/-/settings"
    seen = field(ann.get(path), "seen")
    ann.post("/ann/shared/-/info", data={"description": "The first", "seen": seen})
    second = ann.post("/ann/shared/-/info", data={"description": "The second", "seen": seen})
    assert second.status_code == 409
    assert "somebody else has changed" in alert_of(second)
    assert "The first" in text_of(second)
    assert field(second, "description") == "The second"
    saved = ann.post("/ann/shared/-/info", data={"description": "The second", "seen": field(second, "seen")})
    assert saved.status_code == 303


def test_a_licence_is_replaced_and_not_taken_back(site: Browsers, ann: httpx.Client) -> None:
    site.people.add("ann", "licensed")
    path = "/ann/licensed/-/info"
    nowhere = ann.post(path, data={"license_short": "X", "license_url": "javascript:alert(1)"})
    assert nowhere.status_code == 400
    assert "beginning with https://" in alert_of(nowhere)
    assert ann.post(path, data=SAID).status_code == 303
    taken = ann.post(path, data={**SAID, "license_short": "", "license_url": ""})
    assert taken.status_code == 400
    assert "cannot be taken back" in alert_of(taken)


def test_an_input_of_others_is_kept_and_they_are_named(ann: httpx.Client) -> None:
    answer = ann.post("/ann/readings/-/delete", data={"confirm": "ann/readings"})
    assert answer.status_code == 409
    assert "is an input of ann/copied" in alert_of(answer)
    assert 'href="/ann/copied"' in answer.text
    assert ann.get("/ann/readings").status_code == 200


def test_deleting_asks_for_the_whole_name(site: Browsers, ann: httpx.Client) -> None:
    site.people.add("ann", "going")
    for name in ("", "going", "ann/Going", "ann/readings"):
        answer = ann.post("/ann/going/-/delete", data={"confirm": name})
        assert answer.status_code == 400
        assert "type ann/going" in alert_of(answer)
    assert ann.get("/ann/going").status_code == 200
    answer = ann.post("/ann/going/-/delete", data={"confirm": "ann/going"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/ann?done=deleted")
    assert ann.get("/ann/going").status_code == 404
    assert "The dataset is deleted." in text_of(ann.get("/ann?done=deleted"))


TWINS = """
  - kind: SetInfo
    description: Before
    keywords: ['rain, heavy', sun]
  - kind: SetAttachments
    attachments:
      kind: Embedded
      items:
      - {path: NOTICE, content: "Same\\n"}
      - {path: docs/readme.MD, content: "Same\\n"}
"""


def test_what_was_not_edited_stays_as_it_was(site: Browsers, ann: httpx.Client) -> None:
    entry = site.people.add("ann", "twins", manifest=ROOT + TWINS)
    typed = {"description": "After", "keywords": "rain, heavy, sun", "readme": "New"}
    assert ann.post("/ann/twins/-/info", data=typed).status_code == 303
    _, state = site.people.node.repository.current(entry.id)
    assert state.info is not None
    assert state.attachments is not None
    assert (state.info.event.description, state.info.event.keywords) == ("After", ("rain, heavy", "sun"))
    items = state.attachments.event.attachments.items
    assert [(each.path, each.content) for each in items] == [("NOTICE", "Same\n"), ("docs/readme.MD", "New\n")]
    assert ann.post("/ann/twins/-/info", data={**typed, "readme": ""}).status_code == 303
    _, state = site.people.node.repository.current(entry.id)
    assert state.attachments is not None
    assert [each.path for each in state.attachments.event.attachments.items] == ["NOTICE"]
