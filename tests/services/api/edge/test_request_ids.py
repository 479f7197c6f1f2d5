"""Requests have ids and traces, as do their log lines, jobs and calls."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from odfabric.errors import Determinate
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.formats.operations.trace_context import parse_traceparent
from odfabric.model.subscriptions.subscription import WebhookResponse
from odfabric.settings import Settings
from odfabric.telemetry import ids_of, next_traceparent
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.jobs.job_actor import trace_of_job
from odfabric.wiring import Node
from tests.services.api.intercepting import Around
from tests.services.api.serving import Served, serving
from tests.usecases.manifests import ROOT

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
ID = re.compile(r"[0-9a-f]{32}")
ROWS = b'{"event_time": "2026-01-01T00:00:00Z", "city": "Delft", "value": 1}\n'


class Ids(logging.Handler):
    """What each record of the api belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: list[dict[str, str]] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.seen.append(ids_of(record))


@pytest.fixture
def around() -> Around:
    return Around()


@pytest.fixture
def memory(tmp_path: Path, around: Around) -> MemoryNode:
    memory = MemoryNode(tmp_path, interceptor=around)
    memory.add(ROOT)
    return memory


@pytest.fixture
def node(memory: MemoryNode, tmp_path: Path) -> Node:
    return Node(memory.node.ports, Settings(workspace=tmp_path, push_wait_s_max=0.0))


@pytest.fixture
def served(node: Node) -> Iterator[Served]:
    with serving(node) as served:
        yield served


@pytest.fixture
def client(served: Served) -> Iterator[httpx.Client]:
    with served.client() as client:
        yield client


@pytest.fixture
def logged() -> Iterator[Ids]:
    handler, logger = Ids(), logging.getLogger("odfabric_api")
    logger.addHandler(handler)
    yield handler
    logger.removeHandler(handler)


def test_every_answer_has_an_id_of_its_own(client: httpx.Client, served: Served) -> None:
    with served.client(token=None) as stranger:
        answers = [
            client.get("/local/readings"),
            client.get("/system/health"),
            client.get("/local/nothing"),
            stranger.get("/local/readings"),
            client.request("BREW", "/local/readings"),
            client.get("/info", headers={"x-request-id": "of-the-caller"}),
        ]
    ids = [answer.headers["x-request-id"] for answer in answers]
    assert all(ID.fullmatch(one) for one in ids)
    assert len(set(ids)) == len(answers)


def test_log_lines_say_which_request_and_trace(client: httpx.Client, around: Around, logged: Ids) -> None:
    def away() -> None:
        raise Determinate("the database is away")

    around.before["catalog.by_alias"] = away
    answer = client.get("/local/readings", headers={"traceparent": f"00-{TRACE}-{SPAN}-01"})
    around.before.clear()
    assert answer.status_code == 503
    assert {"request": answer.headers["x-request-id"], "trace": TRACE} in logged.seen


@pytest.mark.parametrize(
    ("sent", "is_taken"),
    [
        ([f"00-{TRACE}-{SPAN}-01"], True),
        ([f"ff-{TRACE}-{SPAN}-01"], False),
        ([f"00-{'0' * 32}-{SPAN}-01"], False),
        (["nonsense"], False),
        ([f"00-{TRACE}-{SPAN}-01"] * 2, False),
        ([], False),
    ],
)
def test_a_job_belongs_to_the_trace_of_its_request(
    client: httpx.Client, node: Node, sent: list[str], is_taken: bool
) -> None:
    headers = [("traceparent", value) for value in sent]
    answer = client.post("/local/readings/verify", headers=headers, json={})
    job = node.jobs.get(answer.json()["job"]["id"])
    trace = trace_of_job(job)
    assert trace is not None
    assert (trace.trace_id == TRACE, trace.span_id == SPAN) == (is_taken, False)
    assert TRACE not in answer.text, "what a caller sends is not told to others"
    assert trace_of_job(replace(job, request=json.dumps({"by": {"trace": "nonsense"}}))) is None


def test_the_engine_is_called_within_the_trace(client: httpx.Client, node: Node, around: Around) -> None:
    called: list[str | None] = []
    around.before["engine.ingest"] = lambda: called.append(next_traceparent())
    headers = {"traceparent": f"00-{TRACE}-{SPAN}-01", "content-type": "application/x-ndjson"}
    assert client.post("/local/readings/ingest", content=ROWS, headers=headers).status_code == 202
    records = Ids()
    logger = logging.getLogger("odfabric")
    logger.addHandler(records)
    level = logger.level
    logger.setLevel(logging.INFO)
    try:
        run = node.jobs.lease("w")
        assert run is not None
        node.jobs.run(run)
    finally:
        logger.setLevel(level)
        logger.removeHandler(records)
    (call,) = [parse_traceparent(value or "") for value in called]
    assert call is not None
    assert (call.trace_id, call.is_sampled) == (TRACE, True)
    entry = node.datasets.resolve(parse_dataset_alias("local/readings"))
    committed = {
        "trace": TRACE,
        "job": run.lease.job.id,
        "dataset": str(entry.id),
        "block": str(node.datasets.head(entry).hash),
    }
    assert committed in records.seen


def test_attempts_at_a_webhook_are_spans_of_one_trace(node: Node, memory: MemoryNode, client: httpx.Client) -> None:
    entry = node.datasets.resolve(parse_dataset_alias("local/readings"))
    node.background.relay_outbox()
    made = node.webhooks.subscribe(entry, url="https://example.org/hook", secret=None, by=node.operator)
    client.post("/local/readings/ingest", content=ROWS, headers={"content-type": "application/x-ndjson"})
    run = node.jobs.lease("w")
    assert run is not None
    node.jobs.run(run)
    node.background.relay_outbox()
    memory.webhooks.script.append(WebhookResponse(500))
    for _ in range(2):
        memory.clock.advance(3_600_000)
        (delivery,) = node.background.due_deliveries("w", limit=10)
        node.background.deliver(delivery)
    first, second = [parse_traceparent(one.headers["traceparent"]) for one in memory.webhooks.received]
    assert first is not None
    assert second is not None
    assert (first.trace_id == second.trace_id, first.span_id == second.span_id) == (True, False)
    (_, kept) = node.webhooks.attempts(entry, made.subscription.id, delivery.id, by=node.operator)
    assert kept.request_headers["traceparent"] == str(first), "the log of attempts tells which"


def test_a_tried_webhook_belongs_to_the_trace_of_whoever_tries(
    node: Node, memory: MemoryNode, client: httpx.Client
) -> None:
    made = node.webhooks.subscribe(
        node.datasets.resolve(parse_dataset_alias("local/readings")),
        url="https://example.org/",
        secret=None,
        by=node.operator,
    )
    tried = client.post(
        f"/local/readings/subscriptions/{made.subscription.id}/test", headers={"traceparent": f"00-{TRACE}-{SPAN}-01"}
    )
    assert tried.status_code == 200
    (received,) = memory.webhooks.received
    assert received.headers["traceparent"].startswith(f"00-{TRACE}-")
