"""Uploads whose parts go to a bucket of a real S3 server, by hand and by command."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.cli.backends.backend import PushFile
from odfabric.cli.backends.chunked_upload import push_in_chunks
from odfabric.cli.backends.node_client import NodeBackend
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.ports.datasets.part_uploads import PART_BYTES_MIN
from odfabric.settings import read_settings
from odfabric.wiring import Node, open_node, prepare_workspace
from tests.services.api.documented import check_documented
from tests.services.api.serving import Served, serving, working
from tests.support.servers.s3 import S3Server
from tests.usecases.manifests import ROOT

LINE = b'{"event_time": "2026-01-01T00:00:00Z", "city": "' + b"A" * 100_000 + b'"}\n'
ROWS = LINE * 110
DIGEST = f"sha-256={hashlib.sha256(ROWS).hexdigest()}"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory, s3: S3Server) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("node")
    settings = read_settings(
        workspace=folder / "w",
        objects_url=f"s3://{s3.create_bucket()}/below",
        s3_endpoint_url=s3.endpoint,
        s3_public_endpoint_url=s3.endpoint,
        s3_access_key=s3.access_key,
        s3_secret_key=s3.secret_key,
        upload_part_bytes=PART_BYTES_MIN,
        upload_part_links_max=2,
    )
    prepare_workspace(settings)
    with open_node(settings, engine=MemoryEngine(settings.workspace.absolute() / "exchange")) as found:
        yield found


@pytest.fixture(scope="module")
def served(node: Node) -> Iterator[Served]:
    with serving(node) as found, working(node):
        yield found


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client() as found:
        found.event_hooks = {"response": [check_documented(served.app)]}
        yield found


@pytest.fixture
def dataset(node: Node, request: pytest.FixtureRequest) -> str:
    name = request.node.originalname.replace("_", "-")[:50]
    (snapshot,) = parse_snapshots(ROOT.replace("name: readings", f"name: {name}"))
    entry, _ = node.datasets.create(snapshot, node.operator)
    return f"/{entry.alias}"


@pytest.fixture
def backend(served: Served, dataset: str) -> Iterator[NodeBackend]:
    with served.client() as client:
        token = client.headers["authorization"].removeprefix("Bearer ")
        found = NodeBackend(str(client.base_url), token=token, account="local", listener=lambda _: None)
    with closing(found):
        found.show(dataset.rpartition("/")[2])
        yield found


def test_a_file_in_parts_is_one_push(client: httpx.Client, dataset: str) -> None:
    begun = client.post(f"{dataset}/uploads", json={"size": len(ROWS), "digest": DIGEST, "parts": True})
    assert (begun.status_code, begun.json()["partBytes"]) == (201, PART_BYTES_MIN)
    upload, tags, first = begun.headers["location"], [], 1
    with httpx.Client(trust_env=False) as store:
        while first is not None:
            page = client.get(f"{upload}/parts", params={"first": first}).json()
            for part in page["parts"]:
                answer = store.put(part["url"], content=ROWS[part["offset"] :][: part["size"]])
                tags.append({"number": part["number"], "tag": answer.headers["etag"]})
            first = page["next"]
    assert (page["count"], len(tags)) == (3, 3)
    assert client.get(upload).json()["complete"] is True
    refused = client.post(f"{upload}/ingest", json={"digest": DIGEST, "mediaType": "application/x-ndjson"})
    assert (refused.status_code, refused.json()["field"]) == (400, "parts")
    body = {"digest": DIGEST, "mediaType": "application/x-ndjson", "parts": tags}
    pushed = client.post(f"{upload}/ingest", json=body)
    assert (pushed.status_code, pushed.json()["rows"]) == (200, 110)
    assert client.post(f"{upload}/ingest", json=body).json() == pushed.json()
    assert client.get(f"{upload}/parts").status_code == 400


PAGE = Path(__file__).parents[3] / "docs/howto/push-a-large-file.md"


def test_the_example_of_the_page_sends_every_part(client: httpx.Client, dataset: str, tmp_path: Path) -> None:
    (example,) = (block for block in PAGE.read_text().split("```bash\n")[1:] if '\\"parts\\": true' in block)
    (tmp_path / "big.csv").write_bytes(ROWS)
    script = "set -eu\n" + example.split("```")[0].replace("/me/readings", dataset)
    script = script.replace("text/csv", "application/x-ndjson")  # the engine in memory reads nothing else
    token = client.headers["authorization"].removeprefix("Bearer ")
    ran = subprocess.run(
        ["bash", "-c", script],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "NODE": str(client.base_url).rstrip("/"), "TOKEN": token},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout.splitlines()[-1]).get("rows") == 110, ran.stdout


def push_of(path: Path) -> PushFile:
    return PushFile(
        path=str(path), name=str(path), source_name=None, media_type=None, event_time=None, idempotency_key=None
    )


class Store(httpx.BaseTransport):
    """The way to the bucket: counts parts, breaks, or ends the command."""

    def __init__(self, *, breaks: int = 0, parts: int = 100) -> None:
        self._inner = httpx.HTTPTransport()
        self._breaks, self._left, self.sent = breaks, parts, 0

    def close(self) -> None:
        self._inner.close()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        assert "authorization" not in request.headers
        if not self._left:
            raise KeyboardInterrupt
        if self._breaks and self.sent % 2:
            self._breaks -= 1
            raise httpx.WriteError("broken pipe")
        self._left, self.sent = self._left - 1, self.sent + 1
        return self._inner.handle_request(request)


def pushed(backend: NodeBackend, dataset: str, path: Path, store: Store) -> object:
    with httpx.Client(transport=store) as http:
        return push_in_chunks(backend.connection, dataset, push_of(path), sleep=lambda _: None, store=http).json()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "rows.ndjson"
    path.write_bytes(ROWS)
    return path


def test_the_command_sends_parts_and_goes_on_after_a_break(
    backend: NodeBackend, client: httpx.Client, dataset: str, file: Path
) -> None:
    store = Store(breaks=1)
    answer = pushed(backend, dataset, file, store)
    assert isinstance(answer, dict)
    assert (answer["rows"], store.sent) == (110, 3)


def test_the_next_command_sends_only_what_is_missing(backend: NodeBackend, dataset: str, file: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        pushed(backend, dataset, file, Store(parts=2))
    rest = Store()
    answer = pushed(backend, dataset, file, rest)
    assert isinstance(answer, dict)
    assert (answer["rows"], rest.sent) == (110, 1)


def test_a_store_out_of_reach_means_chunks(
    backend: NodeBackend, client: httpx.Client, dataset: str, file: Path
) -> None:
    class OutOfReach(Store):
        def handle_request(self, request: httpx.Request) -> httpx.Response:
            raise httpx.ConnectError("no route to host")

    answer = pushed(backend, dataset, file, OutOfReach())
    assert isinstance(answer, dict)
    assert answer["rows"] == 110
