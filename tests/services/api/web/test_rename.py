"""Renaming on the settings page and over REST, by those who may delete."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from odfabric.cli.backends.node_client import NodeBackend
from odfabric.model.people.account import DatasetRole
from tests.services.api.browsing import Browsers, alert_of, browsing, field, text_of
from tests.services.api.people import People


@pytest.fixture
def browsers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browsers]:
    people = People(tmp_path_factory.mktemp("node"))
    cities = people.add("ann", "cities")
    people.grant(cities, "edda", DatasetRole.EDITOR)
    people.add("ann", "hidden")
    with browsing(people) as found:
        yield found


@pytest.fixture
def ann(browsers: Browsers) -> Iterator[httpx.Client]:
    with browsers.open("ann") as found:
        yield found


def test_a_dataset_gets_its_new_address(ann: httpx.Client, browsers: Browsers) -> None:
    answer = ann.post("/ann/cities/-/name", data={"name": " towns "})
    assert (answer.status_code, answer.headers["location"]) == (303, "/ann/towns/-/settings?done=renamed")
    shown = ann.get(answer.headers["location"])
    assert "The dataset has its new name." in text_of(shown)
    assert field(shown, "name") == "towns"
    assert ann.get("/ann/cities").status_code == 404
    with browsers.open("edda") as edda:
        assert edda.get("/ann/towns").status_code == 200


def test_a_refused_name_is_shown_again(ann: httpx.Client) -> None:
    for name, status, said in (
        ("hidden", 409, "the name ann/hidden is taken"),
        ("a b", 400, "is not a valid DatasetName"),
    ):
        refused = ann.post("/ann/cities/-/name", data={"name": name})
        assert (refused.status_code, field(refused, "name")) == (status, name)
        assert said in alert_of(refused)
    assert ann.get("/ann/cities").status_code == 200


def test_an_editor_does_not_rename(browsers: Browsers) -> None:
    with browsers.open("edda") as edda:
        assert "Rename this dataset" not in text_of(edda.get("/ann/cities/-/settings"))
        assert edda.post("/ann/cities/-/name", data={"name": "towns"}).status_code == 403


def test_programs_and_the_command_rename_too(browsers: Browsers) -> None:
    token = browsers.people.bearer("ann")["authorization"].removeprefix("Bearer ")
    with browsers.served.client(token) as client:
        found = client.put("/ann/cities/name", json={"name": "towns"})
        assert (found.status_code, found.json()["datasetName"]) == (200, "towns")
    backend = NodeBackend(browsers.served.url, token=token, account="ann", listener=lambda _: None)
    try:
        assert backend.rename("towns", "villages") == {"id": found.json()["id"], "alias": "ann/villages"}
    finally:
        backend.close()
