"""The Simple Transfer Protocol: bytes as they are stored, conditions, ranges."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import httpx
import pytest

from odfabric.formats.blocks.block import decode_block
from odfabric.formats.blocks.block_stretch import read_stretch
from odfabric.model.jobs.job import Job
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.raw import exchanged, head
from tests.services.api.serving import Served
from tests.usecases.manifests import ROOT

ROWS = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


@dataclass(frozen=True, slots=True)
class Objects:
    """A dataset with a slice, and one without."""

    head: str
    data: str
    data_bytes: bytes


@pytest.fixture(scope="module")
def objects(memory: MemoryNode, served: Served) -> Objects:
    entry = memory.add(ROOT)
    memory.add(ROOT.replace("name: readings", "name: other"))
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([ROWS])))
    assert isinstance(job, Job)
    memory.finish(job)
    key = next(iter(memory.objects.keys(f"{entry.id.multibase}/data/")))
    data = memory.objects.read_bytes(key, size_max=1 << 20)
    return Objects(str(memory.node.datasets.head(entry).hash), key.rpartition("/")[2], data)


def sha3(data: bytes) -> str:
    return "f1620" + hashlib.sha3_256(data).hexdigest()


def test_the_head_is_text_without_a_line_end(client: httpx.Client, objects: Objects) -> None:
    answer = client.get("/local/readings/refs/head")
    assert answer.text == objects.head
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["etag"] == f'"{objects.head}"'
    assert answer.headers["cache-control"] == "no-cache"


def test_no_other_ref_is_there(client: httpx.Client, objects: Objects) -> None:
    assert client.get("/local/readings/refs/main").status_code == 404


def test_blocks_are_served_as_the_bytes_that_hash_to_their_name(client: httpx.Client, objects: Objects) -> None:
    answer = client.get(f"/local/readings/blocks/{objects.head}")
    assert sha3(answer.content) == objects.head
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.headers["content-length"] == str(len(answer.content))
    assert "immutable" in answer.headers["cache-control"]
    assert "private" in answer.headers["cache-control"]


def test_slices_are_served_as_they_are_stored(client: httpx.Client, objects: Objects) -> None:
    answer = client.get(f"/local/readings/data/{objects.data}")
    assert answer.content == objects.data_bytes
    assert sha3(answer.content) == objects.data


@pytest.mark.parametrize("path", ["refs/head", "blocks/{head}", "data/{data}"])
def test_head_answers_like_get_without_the_body(client: httpx.Client, objects: Objects, path: str) -> None:
    path = "/local/readings/" + path.format(head=objects.head, data=objects.data)
    got, asked = client.get(path), client.head(path)
    assert (asked.status_code, asked.content) == (200, b"")
    for name in ("content-length", "content-type", "etag", "cache-control"):
        assert asked.headers[name] == got.headers[name]


def test_head_of_what_is_not_there_is_not_found(client: httpx.Client, objects: Objects) -> None:
    assert client.head(f"/local/readings/data/{objects.head}").status_code == 404
    assert client.head("/local/missing/refs/head").status_code == 404


@pytest.mark.parametrize("path", ["refs/head", "blocks/{head}", "data/{data}"])
def test_what_the_caller_has_is_not_sent_again(client: httpx.Client, objects: Objects, path: str) -> None:
    path = "/local/readings/" + path.format(head=objects.head, data=objects.data)
    etag = client.get(path).headers["etag"]
    for given in (etag, f'"x", {etag}', f"W/{etag}", "*"):
        for method in ("GET", "HEAD"):
            answer = client.request(method, path, headers={"if-none-match": given})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", etag)
    assert client.get(path, headers={"if-none-match": '"x"'}).status_code == 200
    assert client.get(path, headers={"if-none-match": etag.strip('"')}).status_code == 200


def test_a_condition_does_not_tell_what_exists(client: httpx.Client, stranger: httpx.Client, objects: Objects) -> None:
    given = {"if-none-match": "*"}
    assert stranger.get(f"/local/readings/data/{objects.data}", headers=given).status_code == 404
    assert client.get(f"/local/other/data/{objects.data}", headers=given).status_code == 404


def test_a_hash_is_no_permission(client: httpx.Client, objects: Objects) -> None:
    """The object exists, but not by way of this dataset, or this folder."""
    assert client.get(f"/local/other/data/{objects.data}").status_code == 404
    assert client.get(f"/local/other/blocks/{objects.head}").status_code == 404
    assert client.get(f"/local/readings/blocks/{objects.data}").status_code == 404
    assert client.get(f"/local/readings/checkpoints/{objects.data}").status_code == 404


@pytest.mark.parametrize(
    "name", ["x", "head", "f1620", "F1620" + "0" * 64, "f1620" + "0" * 63, "..", "f1620" + "g" * 64]
)
def test_what_is_no_hash_is_an_invalid_name(client: httpx.Client, objects: Objects, name: str) -> None:
    quoted = name.replace(".", "%2e")
    for folder in ("blocks", "data", "checkpoints"):
        answer = client.get(f"/local/readings/{folder}/{quoted}")
        assert answer.status_code in (400, 404)
        assert answer.json()["code"] == ("invalid-name" if answer.status_code == 400 else "not-found")


@pytest.mark.parametrize(
    ("asked", "begin", "end"),
    [
        ("0-0", 0, 1),
        ("0-99", 0, 100),
        ("10-", 10, None),
        ("-4", -4, None),
        ("5-999999999", 5, None),
        ("-999999999", 0, None),
    ],
)
def test_a_range_of_an_object_is_served(
    client: httpx.Client, objects: Objects, asked: str, begin: int, end: int | None
) -> None:
    answer = client.get(f"/local/readings/data/{objects.data}", headers={"range": f"bytes={asked}"})
    expected = objects.data_bytes[begin:end]
    first = begin if begin >= 0 else len(objects.data_bytes) + begin
    assert (answer.status_code, answer.content) == (206, expected)
    size = len(objects.data_bytes)
    assert answer.headers["content-range"] == f"bytes {first}-{first + len(expected) - 1}/{size}"


@pytest.mark.parametrize("asked", ["bytes=0-1,3-4", "bytes=-", "bytes=4-2", "rows=0-1", "bytes=a-b", "bytes"])
def test_a_range_that_is_not_understood_gives_all(client: httpx.Client, objects: Objects, asked: str) -> None:
    answer = client.get(f"/local/readings/data/{objects.data}", headers={"range": asked})
    assert (answer.status_code, answer.content) == (200, objects.data_bytes)


def test_a_range_behind_the_end_cannot_be_had(client: httpx.Client, objects: Objects) -> None:
    size = len(objects.data_bytes)
    for asked in (f"bytes={size}-", "bytes=-0"):
        answer = client.get(f"/local/readings/data/{objects.data}", headers={"range": asked})
        assert (answer.status_code, answer.headers["content-range"]) == (416, f"bytes */{size}")
    assert (
        client.get(f"/local/readings/data/{objects.data}", headers={"range": f"bytes={size - 1}-"}).status_code == 206
    )


def test_a_range_of_another_version_gives_all(client: httpx.Client, objects: Objects) -> None:
    path, asked = f"/local/readings/data/{objects.data}", {"range": "bytes=0-1"}
    assert client.get(path, headers={**asked, "if-range": f'"{objects.data}"'}).status_code == 206
    assert client.get(path, headers={**asked, "if-range": '"x"'}).status_code == 200


def test_one_connection_serves_many_objects(served: Served, objects: Objects) -> None:
    """A client with the last byte may ask again before the server ends the answer."""
    with served.connect() as connection:
        for _ in range(40):
            answer = exchanged(connection, head("GET", f"/local/readings/data/{objects.data}"))
            assert (answer.status, len(answer.body)) == (200, len(objects.data_bytes))


def test_blocks_come_with_predecessors_if_the_caller_asks(client: httpx.Client, objects: Objects) -> None:
    path = f"/local/readings/blocks/{objects.head}"
    answer = client.get(path, headers={"odf-blocks": "1000"})
    assert answer.headers["content-type"] == "application/vnd.odfabric.blocks"
    assert answer.headers["cache-control"] == "no-store"
    assert "odf-blocks" in answer.headers["vary"].split(", ")
    blocks = read_stretch(answer.content, count_max=1000, block_bytes_max=1 << 20)
    names = [objects.head]
    for data in blocks:
        assert sha3(data) == names[-1]
        names.append(str(decode_block(data).prev_block_hash))
    assert names[-1] == "None"
    two = client.get(path, headers={"odf-blocks": "2"}).content
    assert read_stretch(two, count_max=2, block_bytes_max=1 << 20) == blocks[:2]


def test_predecessors_come_to_who_may_read_the_dataset_alone(
    client: httpx.Client, stranger: httpx.Client, objects: Objects
) -> None:
    asked = {"odf-blocks": "2"}
    assert stranger.get(f"/local/readings/blocks/{objects.head}", headers=asked).status_code == 404
    assert client.get(f"/local/other/blocks/{objects.head}", headers=asked).status_code == 404
    assert client.get(f"/local/readings/blocks/{objects.data}", headers=asked).status_code == 404


@pytest.mark.parametrize("count", ["0", "1001", "-1", "many", "", "٣"])
def test_a_count_of_blocks_that_is_none_is_refused(client: httpx.Client, objects: Objects, count: str) -> None:
    answer = client.get(f"/local/readings/blocks/{objects.head}", headers={b"odf-blocks": count.encode()})
    assert answer.status_code == 400
    assert "1 to 1000" in answer.text


def test_a_block_alone_says_on_what_its_answer_depends(client: httpx.Client, objects: Objects) -> None:
    answer = client.get(f"/local/readings/blocks/{objects.head}")
    assert "odf-blocks" in answer.headers["vary"].split(", ")
