"""The console's pages of repositories, and of a dataset's copies elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape

import httpx
import pytest

from odfabric.adapters.memory.datasets.object_store import MemoryObjectStore
from odfabric.model.people.account import DatasetRole
from tests.services.api.browsing import HOSTILE, Browsers, alert_of, text_of
from tests.services.api.people import People
from tests.services.api.serving import serving

ADMIN_PAGE = "/-/admin/repositories"
PAGE = "/ann/readings/-/copies"
SHELF = "file:///shelf/"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    people = People(tmp_path_factory.mktemp("node"))
    readings = people.add("ann", "readings")
    people.grant(readings, "rita", DatasetRole.READER)
    memory = people.memory
    memory.remote_stores.share(f"{SHELF}ann/readings/", MemoryObjectStore(memory.clock))
    return people


@pytest.fixture(scope="module")
def site(people: People) -> Iterator[Browsers]:
    with serving(people.node) as served:
        yield Browsers(people, served)


@pytest.fixture
def root(site: Browsers) -> Iterator[httpx.Client]:
    with site.open("root") as found:
        yield found


@pytest.fixture
def ann(site: Browsers) -> Iterator[httpx.Client]:
    with site.open("ann") as found:
        yield found


def finish(people: People, led: httpx.Response) -> None:
    """Work until the job has ended that an answer leads to."""
    job = people.node.ports.jobs.get(led.headers["location"].rpartition("/")[2])
    assert job is not None
    people.memory.finish(job)


def test_an_admin_adds_and_removes_repositories(root: httpx.Client, ann: httpx.Client) -> None:
    assert "There are none." in text_of(root.get(ADMIN_PAGE))
    done = root.post(ADMIN_PAGE, data={"name": "attic", "url": "s3://bucket/x"})
    shown = root.get(done.headers["location"])
    assert "known to all accounts" in text_of(shown)
    assert "s3://bucket/x/" in text_of(shown)
    assert "<option>attic</option>" in ann.get(PAGE).text
    refused = root.post(ADMIN_PAGE, data={"name": "attic", "url": "s3://bucket/y"})
    assert refused.status_code == 409
    assert "s3://bucket/y" in refused.text
    removed = root.post(f"{ADMIN_PAGE}/attic/remove")
    assert "is forgotten" in text_of(root.get(removed.headers["location"]))
    assert root.post(f"{ADMIN_PAGE}/attic/remove").status_code == 404


def test_a_place_that_is_none_is_refused_at_its_field(root: httpx.Client) -> None:
    refused = root.post(ADMIN_PAGE, data={"name": "x", "url": f"https://user:pw@node.example/{HOSTILE}"})
    assert refused.status_code == 400
    assert alert_of(refused)
    assert HOSTILE not in refused.text


def test_a_dataset_is_pushed_shown_and_forgotten(ann: httpx.Client, root: httpx.Client, people: People) -> None:
    assert PAGE in ann.get("/ann/readings/-/settings").text
    empty = text_of(ann.get(PAGE))
    assert "pushed nowhere yet" in empty
    assert "made here" in empty
    root.post(ADMIN_PAGE, data={"name": "shelf", "url": SHELF})
    pushed = ann.post(PAGE, data={"to": "shelf"})
    assert (pushed.status_code, pushed.headers["location"].startswith("/-/jobs/")) == (303, True)
    finish(people, pushed)
    shown = text_of(ann.get(PAGE))
    assert "shelf/ann/readings" in shown
    assert "blocks pushed to shelf/ann/readings" in shown
    finish(people, ann.post(PAGE, data={"to": "shelf/ann/readings"}))
    assert "up to date" in text_of(ann.get(PAGE))
    gone = ann.post(f"{PAGE}/forget", data={"target": "shelf/ann/readings"})
    assert "What is there stays" in text_of(ann.get(gone.headers["location"]))


def test_an_unknown_repository_is_refused_in_the_form(ann: httpx.Client) -> None:
    refused = ann.post(PAGE, data={"to": "nowhere"})
    assert refused.status_code == 404
    assert "nowhere" in unescape(alert_of(refused))


def test_readers_do_not_find_the_page(site: Browsers) -> None:
    with site.open("rita") as rita:
        assert rita.get(PAGE).status_code == 403
