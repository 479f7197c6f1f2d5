"""Routes of the catalog."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring import Node
from tests.services.api.intercepting import Around
from tests.services.api.serving import serving
from tests.usecases.manifests import DERIVED, ROOT

YAML = {"content-type": "application/yaml"}
# More bytes, levels and values than `ROOT` has.
LARGER = ROOT.replace(
    "{kind: Option, inner: Int64}", "{kind: List, itemType: {kind: List, itemType: {kind: List, itemType: Int64}}}"
)
MISSING_ID = "did:odf:fed01df230b49615d175307d580c33d6fda61fc7b9aec91df0f5c1a5ebe3b8cbfee02"


def manifest(name: str) -> str:
    return ROOT.replace("name: readings", f"name: {name}")


def created(client: httpx.Client, name: str) -> dict[str, str]:
    answer = client.post("/datasets", content=manifest(name), headers=YAML)
    assert answer.status_code == 201
    found: dict[str, str] = answer.json()
    return found


def test_a_dataset_is_made_from_a_manifest(client: httpx.Client) -> None:
    answer = client.post("/datasets", content=manifest("made"), headers=YAML)
    assert answer.status_code == 201
    made = answer.json()
    assert made["alias"] == "local/made"
    assert client.get("/local/made/refs/head").text == made["head"]
    found = client.get(answer.headers["location"]).json()
    assert (found["id"], found["datasetName"], found["owner"]["accountName"]) == (made["id"], "made", "local")


@pytest.mark.parametrize(
    "media_type",
    [None, "text/plain", "application/x-yaml; charset=utf-8", "application/json", "application/x-www-form-urlencoded"],
)
def test_manifests_come_under_many_names(client: httpx.Client, media_type: str | None) -> None:
    name = "typed-" + re.sub(r"\W+", "-", str(media_type))
    headers = {"content-type": media_type} if media_type else {}
    assert client.post("/datasets", content=manifest(name).encode(), headers=headers).status_code == 201


@pytest.mark.parametrize(
    "media_type", ["application/xml", "text/yaml; charset=latin-1", "multipart/form-data; boundary=x"]
)
def test_other_media_types_are_refused(client: httpx.Client, media_type: str) -> None:
    answer = client.post("/datasets", content=manifest("typed"), headers={"content-type": media_type})
    assert (answer.status_code, answer.json()["code"]) == (415, "unsupported-media-type")


@pytest.mark.parametrize(
    ("limit", "maximum"), [("manifest_bytes_max", 380), ("manifest_depth_max", 10), ("manifest_nodes_max", 50)]
)
def test_limits_of_manifests_can_be_set(tmp_path: Path, limit: str, maximum: int) -> None:
    settings = Settings.model_validate({"workspace": tmp_path, limit: maximum})
    with serving(Node(MemoryNode(tmp_path).node.ports, settings)) as served, served.client() as client:
        assert client.post("/datasets", content=ROOT, headers=YAML).status_code == 201
        refused = client.post("/datasets", content=LARGER, headers=YAML)
    assert (refused.status_code, refused.json()["limit"], refused.json()["maximum"]) == (413, limit, maximum)


def test_no_block_is_written_that_is_too_large_to_be_read(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    settings = Settings(workspace=tmp_path, block_bytes_max=200)
    with serving(Node(memory.node.ports, settings)) as served, served.client() as client:
        told = client.post("/datasets", content=ROOT, headers=YAML).json()
        assert (told["status"], told["limit"], told["maximum"]) == (413, "block_bytes_max", 200)
        assert client.get("/local/readings/refs/head").status_code == 404
    assert list(memory.node.ports.objects.keys("")) == []


def test_a_wrong_manifest_is_told_with_its_place(client: httpx.Client) -> None:
    answer = client.post("/datasets", content=manifest("wrong").replace("kind: Root", "kind: Tree"), headers=YAML)
    problem = answer.json()
    assert (answer.status_code, problem["code"]) == (422, "invalid-manifest")
    assert problem["line"] == 6
    assert problem["errors"][0]["line"] == 6
    assert "wrong" not in client.get("/datasets").text


@pytest.mark.parametrize(
    "body", [b"", b"\xff", manifest("a").encode() + b"---\n" + manifest("b").encode(), b"[", b"a: &a [*a]"]
)
def test_what_is_no_manifest_is_refused(client: httpx.Client, body: bytes) -> None:
    assert client.post("/datasets", content=body, headers=YAML).status_code in (400, 422)


def test_a_taken_name_is_a_conflict(client: httpx.Client) -> None:
    created(client, "taken")
    for name in ("taken", "TAKEN", "local/taken"):
        answer = client.post("/datasets", content=manifest(name), headers=YAML)
        assert (answer.status_code, answer.json()["code"]) == (409, "already-exists")


def test_datasets_of_accounts_that_are_not_there_are_not_made(client: httpx.Client) -> None:
    for account in ("other", "jobs"):
        answer = client.post("/datasets", content=manifest(f"{account}/readings"), headers=YAML)
        assert (answer.status_code, answer.json()["message"]) == (404, f"account not found: {account}")


def test_a_transform_that_the_engine_refuses_is_refused_at_once(client: httpx.Client) -> None:
    created(client, "upstream")
    bad = DERIVED.replace("datasetRef: readings", "datasetRef: upstream").replace(
        "SELECT * FROM readings", "DROP TABLE x"
    )
    answer = client.post("/datasets", content=bad, headers=YAML)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["queryLine"]) == (400, "invalid-query", 1)


def test_a_listing_goes_from_page_to_page(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    names = [f"d{number}" for number in range(5)]
    for name in reversed(names):
        memory.add(manifest(name))
    with serving(memory.node) as served, served.client() as client:
        found, url, pages = [], "/datasets?limit=2", 0
        while url:
            page = client.get(url)
            found += [entry["alias"] for entry in page.json()["datasets"]]
            url = page.links["next"]["url"] if "next" in page.links else ""
            pages += 1
    assert (found, pages) == ([f"local/{name}" for name in names], 3)


def test_a_listing_tells_kind_and_head(client: httpx.Client) -> None:
    made = created(client, "listed")
    entries = {entry["alias"]: entry for entry in client.get("/datasets", params={"limit": 1000}).json()["datasets"]}
    assert entries["local/listed"] == {"id": made["id"], "alias": "local/listed", "kind": "Root", "head": made["head"]}


def test_a_dataset_that_goes_while_it_is_listed_is_left_out(tmp_path: Path) -> None:
    """The page and the heads are two reads; in between anything may happen."""
    around = Around()
    memory = MemoryNode(tmp_path, interceptor=around)
    memory.add(manifest("staying"))
    going = memory.add(manifest("going"))

    def delete() -> None:
        around.after.clear()
        memory.node.datasets.delete(going)

    with serving(memory.node) as served, served.client() as client:
        around.after["catalog.page"] = delete
        aliases = [found["alias"] for found in client.get("/datasets").json()["datasets"]]
    assert aliases == ["local/staying"]


@pytest.mark.parametrize(
    ("params", "field"),
    [
        ({"limit": "0"}, "limit"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "many"}, "limit"),
        ({"limit": "1" * 5000}, "limit"),
        ({"limt": "3"}, "limt"),
    ],
)
def test_a_wrong_parameter_is_named(client: httpx.Client, params: dict[str, str], field: str) -> None:
    answer = client.get("/datasets", params=params)
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["field"]) == (400, "invalid-request", field)
    assert problem["errors"][0]["field"] == field
    assert f"{field}: {field}:" not in problem["detail"]


def test_a_page_of_the_limit_is_given(client: httpx.Client) -> None:
    assert client.get("/datasets", params={"limit": "1000"}).status_code == 200
    assert client.get("/datasets", params={"limit": "1"}).status_code == 200


def test_a_parameter_that_is_given_twice_is_ambiguous(client: httpx.Client) -> None:
    assert client.get("/datasets?limit=1&limit=2").json()["field"] == "limit"


def test_a_page_begins_after_a_name(client: httpx.Client) -> None:
    assert client.get("/datasets", params={"after": "local/zzz"}).json() == {"datasets": []}
    assert client.get("/datasets", params={"after": "no--name"}).status_code == 400
    assert client.get("/datasets", params={"after": ""}).status_code == 400


def test_a_dataset_is_found_by_its_id_only(client: httpx.Client) -> None:
    assert client.get(f"/datasets/{MISSING_ID}").status_code == 404
    assert client.get("/datasets/readings").status_code == 400


def test_a_deleted_dataset_is_gone(client: httpx.Client) -> None:
    made = created(client, "gone")
    assert client.delete(f"/datasets/{made['id']}").status_code == 204
    assert client.get(f"/datasets/{made['id']}").status_code == 404
    assert client.get("/local/gone/tail").status_code == 404
    assert client.delete(f"/datasets/{made['id']}").status_code == 404


def test_a_deletion_may_expect_a_head(client: httpx.Client) -> None:
    made = created(client, "expected")
    other = created(client, "other-head")["head"]
    path = f"/datasets/{made['id']}"
    conflict = client.delete(path, headers={"if-match": f'"{other}"'})
    assert (conflict.status_code, conflict.json()["code"], conflict.json()["actual"]) == (
        409,
        "head-moved",
        made["head"],
    )
    for wrong in ("*", '"a", "b"', '""', 'W/"x"', "x"):
        assert client.delete(path, headers={"if-match": wrong}).status_code == 400
    assert client.delete(path, headers={"if-match": f'"{made["head"]}"'}).status_code == 204


def test_an_input_of_others_is_not_deleted(client: httpx.Client) -> None:
    made = created(client, "feeding")
    derived = DERIVED.replace("readings", "feeding").replace("name: copied", "name: fed")
    assert client.post("/datasets", content=derived, headers=YAML).status_code == 201
    answer = client.delete(f"/datasets/{made['id']}")
    problem = answer.json()
    assert (answer.status_code, problem["code"], problem["usedBy"]) == (409, "in-use", ["local/fed"])
    assert "local/fed" in problem["message"]
    assert client.get(f"/datasets/{made['id']}").status_code == 200


REFUSED = DERIVED.replace("name: copied", "name: refused").replace(
    "transform: {kind: Sql, engine: spark, query: SELECT * FROM readings}",
    "transform:\n      kind: Sql\n      engine: spark\n      query: >-\n        SELECT nothing\n        FROM readings",
)


def test_a_refused_query_has_its_place_in_the_manifest(client: httpx.Client) -> None:
    created(client, "asked")
    problem = client.post("/datasets", content=REFUSED.replace("readings", "asked"), headers=YAML).json()
    assert (problem["code"], problem["field"]) == ("invalid-query", "transform.queries[0]")
    assert (problem["line"], problem["column"]) == (14, 9)
    assert (problem["queryLine"], problem["queryColumn"]) == (1, 1)
    assert problem["errors"][0]["queryLine"] == 1


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/datasets", "GET, POST"),
        ("PATCH", f"/datasets/{MISSING_ID}", "DELETE, GET"),
        ("POST", "/local/x/refs/head", "GET, HEAD, PUT"),
        ("PUT", "/local/x/blocks/y", "GET, HEAD"),
        ("POST", "/local/x/data/y", "GET, HEAD, PUT"),
        ("GET", "/local/x/pull", "POST"),
        ("OPTIONS", "/query", "GET, POST"),
        ("TRACE", "/info", "GET"),
        ("POST", "/openapi.json", "GET, HEAD"),
    ],
)
def test_another_method_is_told_which_ones_there_are(client: httpx.Client, method: str, path: str, allow: str) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.json()["code"]) == (405, "method-not-allowed")
    assert sorted(answer.headers["allow"].split(", ")) == allow.split(", ")


@pytest.mark.parametrize("path", ["/nothing", "/datasets/", "/local/x", "/local/x/tail/", "/local/x/y/z/w", "//info"])
def test_a_path_that_is_no_route_is_not_found(client: httpx.Client, path: str) -> None:
    answer = client.get(client.base_url.join(path) if path != "//info" else f"{client.base_url}/{path}")
    assert (answer.status_code, answer.json()["code"]) == (404, "not-found")


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/datasets"), ("DELETE", f"/datasets/{MISSING_ID}"), ("GET", "/info")]
)
def test_routes_that_take_no_body_refuse_one(client: httpx.Client, method: str, path: str) -> None:
    answer = client.request(method, path, content=b"x")
    assert (answer.status_code, answer.json()["field"]) == (400, "body")


@pytest.mark.parametrize("encoding", ["gzip", "br", "deflate, gzip"])
def test_encoded_bodies_are_refused(client: httpx.Client, encoding: str) -> None:
    answer = client.post("/datasets", content=b"x", headers={**YAML, "content-encoding": encoding})
    assert answer.status_code == 415
