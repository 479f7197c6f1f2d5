"""Changing the transform of a dataset over HTTP."""

from __future__ import annotations

import httpx
import pytest

from odfabric.model.commit import CatalogEntry
from odfabric.testing.memory_node import MemoryNode
from tests.usecases.manifests import DERIVED, ROOT
from tests.usecases.transform.test_pull_dataset import pull, push, row

YAML = {"content-type": "application/yaml"}
PATH = "/local/chosen/transform"
BOTH = DERIVED.replace("name: copied", "name: chosen").replace(
    "[{datasetRef: readings}]", "[{datasetRef: readings, alias: a}, {datasetRef: others, alias: b}]"
)


def manifest(query: str) -> str:
    return BOTH.replace("SELECT * FROM readings", query)


@pytest.fixture(scope="module")
def chosen(memory: MemoryNode) -> CatalogEntry:
    """A dataset that has run."""
    for text in (ROOT, ROOT.replace("name: readings", "name: others")):
        push(memory, memory.add(text), row(1, "Kyiv"))
    entry = memory.add(manifest("SELECT * FROM a"))
    pull(memory, entry)
    return entry


def test_a_transform_is_changed_once(client: httpx.Client, chosen: CatalogEntry) -> None:
    first, again = (client.put(PATH, content=manifest("SELECT * FROM b"), headers=YAML).json() for _ in range(2))
    assert (first["id"], first["alias"], first["verdict"]) == (str(chosen.id), "local/chosen", "migration")
    assert first["reason"]
    assert [client.get("/local/chosen/refs/head").text] == [first["head"]] == first["blocks"]
    assert again == {**first, "blocks": [], "verdict": None, "reason": None}


@pytest.mark.usefixtures("chosen")
def test_a_refused_query_has_its_place_in_the_manifest(client: httpx.Client) -> None:
    head = client.get("/local/chosen/refs/head").text
    text = manifest("SELECT nothing")
    answer = client.put(PATH, content=text, headers=YAML)
    refused = answer.json()
    assert (answer.status_code, refused["code"]) == (400, "invalid-query")
    assert text.splitlines()[refused["line"] - 1][refused["column"] - 1 :].startswith("SELECT nothing")
    assert (refused["queryLine"], refused["queryColumn"]) == (1, 1)
    assert client.get("/local/chosen/refs/head").text == head


@pytest.mark.parametrize(
    ("path", "content", "media_type", "status", "code"),
    [
        (
            PATH,
            BOTH.replace(", {datasetRef: others, alias: b}", "").replace("FROM readings", "FROM a"),
            None,
            400,
            "invalid-request",
        ),
        ("/local/readings/transform", BOTH, None, 400, "invalid-request"),
        ("/local/readings/transform", ROOT, None, 422, "invalid-manifest"),
        ("/local/nobody/transform", BOTH, None, 404, "not-found"),
        (PATH, BOTH.replace("name: chosen", "name: nobody"), None, 400, "invalid-request"),
        (PATH, f"{BOTH}---\n{BOTH}", None, 400, "invalid-request"),
        (PATH, BOTH, "application/xml", 415, "unsupported-media-type"),
    ],
)
@pytest.mark.usefixtures("chosen")
def test_what_is_no_change_of_this_dataset_is_refused(
    client: httpx.Client, path: str, content: str, media_type: str | None, status: int, code: str
) -> None:
    before = client.get("/local/chosen/refs/head").text
    answer = client.put(path, content=content, headers={"content-type": media_type or YAML["content-type"]})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert client.get("/local/chosen/refs/head").text == before


@pytest.mark.usefixtures("chosen")
def test_strangers_change_nothing(stranger: httpx.Client) -> None:
    assert stranger.put(PATH, content=BOTH, headers=YAML).status_code == 404


@pytest.mark.usefixtures("chosen")
def test_the_same_may_be_asked_for_again(client: httpx.Client) -> None:
    asked = {"content": manifest("SELECT * FROM b"), "headers": YAML}
    client.put(PATH, **asked)
    assert client.put(PATH, **asked).json()["blocks"] == []
    anew = client.put(f"{PATH}?anew=true", **asked).json()
    assert (len(anew["blocks"]), anew["verdict"]) == (1, "migration")
    assert client.put(f"{PATH}?anew=perhaps", **asked).status_code == 400
