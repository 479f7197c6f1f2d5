"""Changing the sources of a dataset over HTTP, and by the command on a node."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from odfabric.cli.backends.backend import JobFailed
from odfabric.cli.backends.node_client import NodeBackend
from odfabric.model.commit import CatalogEntry
from odfabric.testing.memory_node import MemoryNode
from tests.usecases.ingestion.test_set_source import MORE
from tests.usecases.manifests import DERIVED, ROOT
from tests.usecases.transform.test_pull_dataset import push, row

YAML = {"content-type": "application/yaml"}
PATH = "/local/readings/sources"


@pytest.fixture(scope="module")
def readings(memory: MemoryNode) -> CatalogEntry:
    """A dataset that has rows, and one that reads it."""
    entry = memory.add(ROOT)
    push(memory, entry, row(1, "Kyiv"))
    memory.add(DERIVED)
    return entry


@pytest.mark.parametrize(
    ("path", "content", "media_type", "status", "code"),
    [
        (PATH, ROOT.replace("inner: Int64", "inner: Int32"), None, 422, "incompatible-schema"),
        (PATH, ROOT.replace("{kind: Append}", "{kind: Ledger, primaryKey: [town]}"), None, 422, "invalid-manifest"),
        (PATH, DERIVED, None, 400, "invalid-request"),
        ("/local/copied/sources", DERIVED, None, 400, "invalid-request"),
        ("/local/copied/sources", ROOT.replace("readings", "copied"), None, 400, "invalid-request"),
        ("/local/nobody/sources", ROOT, None, 404, "not-found"),
        (PATH, f"{ROOT}---\n{ROOT}", None, 400, "invalid-request"),
        (PATH, ROOT, "application/xml", 415, "unsupported-media-type"),
    ],
)
@pytest.mark.usefixtures("readings")
def test_what_is_no_change_of_this_dataset_is_refused(
    client: httpx.Client, path: str, content: str, media_type: str | None, status: int, code: str
) -> None:
    before = client.get("/local/readings/refs/head").text
    answer = client.put(path, content=content, headers={"content-type": media_type or YAML["content-type"]})
    assert (answer.status_code, answer.json()["code"]) == (status, code), answer.text
    assert client.get("/local/readings/refs/head").text == before


@pytest.mark.usefixtures("readings")
def test_strangers_change_nothing(stranger: httpx.Client) -> None:
    assert stranger.put(PATH, content=MORE, headers=YAML).status_code == 404


@pytest.mark.usefixtures("readings")
def test_a_refusal_names_the_file_and_the_line(backend: NodeBackend, tmp_path: Path) -> None:
    path = tmp_path / "town.yaml"
    path.write_text("---\n".join([DERIVED, ROOT.replace("{kind: Append}", "{kind: Ledger, primaryKey: [town]}")]))
    with pytest.raises(JobFailed) as refused:
        backend.set_source(str(path))
    document = refused.value.document
    assert document["file"] == str(path)
    assert path.read_text().splitlines()[document["line"] - 1].strip().startswith("merge:")  # type: ignore[operator]
    path.write_text("---\n".join([DERIVED, ROOT.replace("inner: Int64", "inner: Int32")]))
    with pytest.raises(JobFailed) as refused:
        backend.set_source(str(path))
    document = refused.value.document
    assert (document["file"], document["field"]) == (str(path), "value")
    assert path.read_text().splitlines()[document["line"] - 1].strip() == "name: readings"  # type: ignore[operator]


def test_sources_are_changed_once(client: httpx.Client, backend: NodeBackend, readings: CatalogEntry) -> None:
    first, again = (client.put(PATH, content=MORE, headers=YAML).json() for _ in range(2))
    assert (first["id"], first["alias"]) == (str(readings.id), "local/readings")
    assert (first["sources"], first["columns"], len(first["blocks"])) == (["the source `default`"], ["unit"], 2)
    assert client.get("/local/readings/refs/head").text == first["head"] == first["blocks"][-1]
    assert again == {**first, "blocks": [], "sources": [], "columns": []}
    assert "unit" in str(backend.show("readings"))


def test_what_a_dataset_says_of_itself_is_changed_once(
    client: httpx.Client, backend: NodeBackend, readings: CatalogEntry, tmp_path: Path
) -> None:
    path = tmp_path / "readings.yaml"
    path.write_text(f"{ROOT}  - kind: SetInfo\n    description: From the roof\n    keywords: [air]\n")
    first, again = (backend.set_info(str(path)) for _ in range(2))
    assert (first[0]["alias"], len(first[0]["blocks"])) == ("local/readings", 1)  # type: ignore[arg-type]
    assert again == [{**first[0], "blocks": []}]
    assert "From the roof" in str(backend.show("readings"))
