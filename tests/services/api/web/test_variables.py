"""The page of variables and secrets of a dataset."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from odfabric.model.people.account import DatasetRole
from tests.services.api.browsing import Browsers, alert_of, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving

SECRET = "s3cret-of-the-source"
PAGE = "/ann/readings/-/variables"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    people = People(tmp_path_factory.mktemp("node"))
    readings = people.add("ann", "readings")
    people.grant(readings, "rita", DatasetRole.READER)
    return people


@pytest.fixture(scope="module")
def site(people: People) -> Iterator[Browsers]:
    with serving(people.node) as served:
        yield Browsers(people, served)


@pytest.fixture
def ann(site: Browsers) -> Iterator[httpx.Client]:
    with site.open("ann") as found:
        yield found


def test_a_secret_is_set_and_never_shown_again(ann: httpx.Client) -> None:
    assert PAGE in ann.get("/ann/readings/-/settings").text
    for form in ({"name": "TOKEN", "value": SECRET, "secret": "yes"}, {"name": "HOST", "value": "data.example"}):
        done = ann.post(PAGE, data=form)
        assert done.status_code == 303
    shown = ann.get(done.headers["location"])
    assert "Saved." in text_of(shown)
    assert SECRET not in shown.text
    assert "data.example" in shown.text
    assert "${{ env.NAME }}" in text_of(shown)
    removed = ann.post(f"{PAGE}/TOKEN/remove")
    assert "Removed." in text_of(ann.get(removed.headers["location"]))
    assert "TOKEN</code>" not in ann.get(PAGE).text


def test_a_refused_secret_is_told_at_its_place_and_not_shown(ann: httpx.Client) -> None:
    refused = ann.post(PAGE, data={"name": "A-B", "value": SECRET, "secret": "yes"})
    assert refused.status_code == 400
    assert "API_TOKEN" in alert_of(refused)
    assert SECRET not in refused.text


def test_readers_do_not_see_the_page(site: Browsers) -> None:
    with site.open("rita") as rita:
        assert rita.get(PAGE).status_code == 403
        assert PAGE not in rita.get("/ann/readings").text
