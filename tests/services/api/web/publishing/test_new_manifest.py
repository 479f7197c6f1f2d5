"""A dataset from a manifest on a page: rights, owner, placed errors, kept text."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from odfabric.model.identity import DatasetAlias, Name
from tests.services.api.browsing import Browsers, alert_of, field, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving
from tests.usecases.manifests import DERIVED, ROOT

WRONG = ROOT.replace("kind: Append", "kind: Apend")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    with serving(people.node) as served:
        yield Browsers(people, served)


@pytest.fixture
def max_(site: Browsers) -> Iterator[httpx.Client]:
    """A member of acme."""
    with site.open("max") as found:
        yield found


def manifest(name: str, text: str = ROOT) -> str:
    return text.replace("name: readings", f"name: {name}").replace("\n", "\r\n")


def test_the_ways_to_make_one_are_offered(max_: httpx.Client) -> None:
    page = max_.get("/-/new")
    for way in ("file", "sql", "manifest"):
        assert f'href="/-/new/{way}"' in page.text


def test_a_manifest_makes_a_dataset_and_leads_there(site: Browsers, max_: httpx.Client) -> None:
    form = max_.get("/-/new/manifest")
    assert '<option value="max">' in form.text
    assert '<option value="acme">' in form.text
    assert "guild" not in form.text
    answer = max_.post("/-/new/manifest", data={"manifest": manifest("one"), "owner": "max", "visibility": "private"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/max/one")
    with site.open(None) as stranger:
        assert stranger.get("/max/one").status_code == 404
        max_.post("/-/new/manifest", data={"manifest": manifest("two"), "owner": "acme", "visibility": "public"})
        assert stranger.get("/acme/two").status_code == 200


def test_the_account_in_the_manifest_counts(max_: httpx.Client) -> None:
    answer = max_.post("/-/new/manifest", data={"manifest": manifest("acme/three"), "owner": "max", "then": "push"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/acme/three/-/push")


def test_what_is_wrong_is_told_at_its_place_and_the_text_is_kept(max_: httpx.Client) -> None:
    answer = max_.post("/-/new/manifest", data={"manifest": WRONG, "owner": "acme", "visibility": "public"})
    assert answer.status_code == 422
    line = 1 + WRONG[: WRONG.index("kind: Apend")].count("\n")
    assert f"Line {line}, column" in alert_of(answer)
    assert "content.metadata[0].merge.kind" in alert_of(answer)
    assert field(answer, "manifest").strip("\n") == WRONG.strip("\n")
    assert '<option value="acme" selected>' in answer.text
    assert 'value="public" checked' in answer.text


def test_a_query_that_is_refused_points_into_the_manifest(max_: httpx.Client) -> None:
    max_.post("/-/new/manifest", data={"manifest": manifest("base"), "owner": "max"})
    text = DERIVED.replace("datasetRef: readings", "datasetRef: max/base, alias: readings")
    text = text.replace("SELECT * FROM readings", "SELECT city FROM readings")
    answer = max_.post("/-/new/manifest", data={"manifest": text, "owner": "max"})
    assert answer.status_code == 422 or answer.status_code == 400
    line = 1 + text[: text.index("SELECT")].count("\n")
    assert f"Line {line}" in alert_of(answer)
    assert "SELECT * FROM readings" in text_of(answer)  # what would be accepted


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        ({"owner": "ann"}, 403, "max may not create ann/four"),
        ({"owner": "no--name"}, 400, "AccountName"),
        ({"visibility": "secret"}, 400, "public or private"),
        ({"manifest": manifest("one") + "---\r\n" + manifest("two")}, 400, "found 2"),
        ({"manifest": ""}, 422, "no manifest"),
    ],
)
def test_refusals_keep_the_form(
    site: Browsers, max_: httpx.Client, given: dict[str, str], status: int, said: str
) -> None:
    answer = max_.post("/-/new/manifest", data={"manifest": manifest("four"), "owner": "max", **given})
    assert answer.status_code == status
    assert said in alert_of(answer)
    assert site.people.node.ports.catalog.by_alias(DatasetAlias(Name("ann"), Name("four"))) is None
    assert site.people.node.ports.catalog.by_alias(DatasetAlias(Name("max"), Name("four"))) is None


def test_a_name_that_is_taken_is_refused(max_: httpx.Client) -> None:
    given = {"manifest": manifest("five"), "owner": "max"}
    assert max_.post("/-/new/manifest", data=given).status_code == 303
    again = max_.post("/-/new/manifest", data=given)
    assert again.status_code == 409
    assert "five" in alert_of(again)
