"""Routes about the node, headers of all answers, and a bug seen from outside."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from odfabric.errors import Corrupt, Determinate, Indeterminate
from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring import Node
from odfabric_api.problems import SECURITY_HEADERS
from tests.services.api.intercepting import Around
from tests.services.api.serving import Served, serving
from tests.usecases.manifests import ROOT


@dataclass(frozen=True, slots=True)
class Troubled:
    """A server of whose ports a test can say what goes wrong."""

    served: Served
    around: Around


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Troubled]:
    folder: Path = tmp_path_factory.mktemp("node")
    around = Around()
    memory = MemoryNode(folder, interceptor=around)
    memory.add(ROOT)
    node = Node(memory.node.ports, Settings(workspace=folder, health_wait_s_max=0.2))
    with serving(node) as served:
        yield Troubled(served, around)


@pytest.fixture
def troubled(server: Troubled) -> Iterator[Troubled]:
    yield server
    server.around.before.clear()
    server.around.after.clear()


@pytest.fixture
def client_of_troubled(troubled: Troubled) -> Iterator[httpx.Client]:
    with troubled.served.client() as client:
        yield client


def raising(error: Exception) -> object:
    def fail() -> None:
        raise error

    return fail


def test_a_node_that_is_well_says_so_to_everybody(stranger: httpx.Client) -> None:
    answer = stranger.get("/system/health")
    assert (answer.status_code, answer.json()) == (200, {"ok": True, "parts": {"database": True, "objects": True}})


@pytest.mark.parametrize(("call", "part"), [("job.page", "database"), ("object.other.stat", "objects")])
def test_health_names_the_part_that_fails(
    troubled: Troubled, client_of_troubled: httpx.Client, call: str, part: str
) -> None:
    troubled.around.before[call] = raising(Determinate("disk /var/lib/secret is gone"))  # type: ignore[assignment]
    answer = client_of_troubled.get("/system/health")
    assert (answer.status_code, answer.json()["ok"], answer.json()["parts"][part]) == (503, False, False)
    assert "secret" not in answer.text


def test_health_does_not_wait_for_a_part_that_hangs(troubled: Troubled, client_of_troubled: httpx.Client) -> None:
    release = threading.Event()
    troubled.around.before["job.page"] = lambda: release.wait(10) and None
    try:
        for _ in range(3):  # more than it has threads
            assert client_of_troubled.get("/system/health").status_code == 503
    finally:
        release.set()


def test_metrics_are_what_prometheus_reads(troubled: Troubled) -> None:
    with troubled.served.client() as client:
        client.post("/local/readings/verify")
        answer = client.get("/system/metrics")
        assert answer.status_code == 200
        families = {family.name: family for family in text_string_to_metric_families(answer.text)}
        (waiting,) = families["odf_jobs_unfinished"].samples
        assert (waiting.labels, waiting.value) == ({"kind": "verify", "status": "queued"}, 1.0)
        assert "process_resident_memory_bytes" in families
        troubled.around.before["job.page"] = raising(Determinate("the database is away"))  # type: ignore[assignment]
        answer = client.get("/system/metrics")
    assert answer.status_code == 200
    assert "odf_jobs_unfinished" not in answer.text


def test_a_node_is_multi_tenant(stranger: httpx.Client) -> None:
    assert stranger.get("/info").json() == {"isMultiTenant": True}


@pytest.mark.parametrize("path", ["/info", "/openapi.json", "/docs", "/datasets", "/nothing"])
def test_every_answer_is_inert_and_nobody_s_to_keep(stranger: httpx.Client, path: str) -> None:
    headers = stranger.get(path).headers
    for name, value in SECURITY_HEADERS.items():
        if (path, name) != ("/docs", "content-security-policy"):
            assert headers[name] == value
    assert "server" not in headers


def test_the_page_of_routes_has_no_script(stranger: httpx.Client, served: Served) -> None:
    answer = stranger.get("/docs")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "<script" not in answer.text
    for path in served.app.openapi()["paths"]:
        assert path in answer.text


def test_pages_elsewhere_may_call_with_a_token(stranger: httpx.Client) -> None:
    asked = {
        "origin": "https://elsewhere.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,idempotency-key",
    }
    answer = stranger.options("/local/readings/ingest", headers=asked)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == "*"
    assert "authorization" in answer.headers["access-control-allow-headers"]
    assert "access-control-allow-credentials" not in answer.headers
    stranger.event_hooks = {}  # a refused preflight is a line of text
    refused = stranger.options("/datasets/x", headers={**asked, "access-control-request-method": "DELETE"})
    assert refused.status_code == 400
    simple = stranger.get("/info", headers={"origin": "https://elsewhere.example"})
    assert simple.headers["access-control-allow-origin"] == "*"


def test_forwarded_headers_are_not_believed(stranger: httpx.Client) -> None:
    forwarded = {
        "forwarded": "for=127.0.0.1;host=evil.example",
        "x-forwarded-for": "127.0.0.1",
        "x-forwarded-host": "evil.example",
        "x-forwarded-proto": "https",
        "x-original-url": "/info",
        "x-http-method-override": "GET",
    }
    answer = stranger.get("/system/metrics", headers=forwarded)
    assert answer.status_code == 401
    assert "evil" not in answer.text + str(answer.headers)


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Determinate("the disk is full"), 503, "unavailable"),
        (Indeterminate("no answer"), 503, "outcome-unknown"),
        (Corrupt("damaged", object_name="f16"), 500, "corrupt"),
    ],
)
def test_failures_of_the_world_are_not_the_client_s(
    troubled: Troubled, client_of_troubled: httpx.Client, error: Exception, status: int, code: str
) -> None:
    troubled.around.before["chain.head"] = raising(error)  # type: ignore[assignment]
    answer = client_of_troubled.get("/local/readings/refs/head")
    assert (answer.status_code, answer.json()["code"]) == (status, code)
    assert ("retry-after" in answer.headers) == (status == 503)


def test_a_bug_is_logged_and_tells_nothing(
    troubled: Troubled, client_of_troubled: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    troubled.around.before["chain.head"] = raising(RuntimeError("secret in /var/lib"))  # type: ignore[assignment]
    with caplog.at_level(logging.ERROR):
        answer = client_of_troubled.get("/local/readings/refs/head")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal-error")
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert [record.exc_info is not None for record in caplog.records] == [True]
    troubled.around.before.clear()
    assert client_of_troubled.get("/local/readings/refs/head").status_code == 200
