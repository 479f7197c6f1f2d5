"""Spans of one trace (requests, jobs, engine calls, webhooks), and a collector."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.formats.operations.trace_context import parse_traceparent
from odfabric.model.node.span import FinishedSpan, SpanKind
from odfabric.settings import Settings
from odfabric.telemetry import record_spans, span
from odfabric.testing.memory_node import MemoryNode
from odfabric.wiring import Node
from odfabric.wiring.monitoring.timings import TimedEngine, Timings
from odfabric.wiring.monitoring.tracing import tracing
from tests.services.api.serving import serving
from tests.support.loopback_http import LoopbackServer, Seen, reply
from tests.support.waiting import wait_until
from tests.usecases.manifests import ROOT

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECRET_ROWS = b'{"event_time": "2026-01-01T00:00:00Z", "city": "Atlantis", "value": 1}\n'


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    memory = MemoryNode(tmp_path)
    memory.add(ROOT)
    return memory


@pytest.fixture
def node(memory: MemoryNode, tmp_path: Path) -> Node:
    timings, ports = Timings(), memory.node.ports
    ports = replace(ports, engine=TimedEngine(ports.engine, timings))
    return Node(ports, Settings(workspace=tmp_path, push_wait_s_max=0.0), timings=timings)


@pytest.fixture
def client(node: Node) -> Iterator[httpx.Client]:
    with serving(node) as served, served.client() as client:
        yield client


def push(client: httpx.Client, **headers: str) -> None:
    content_type = {"content-type": "application/x-ndjson"}
    answer = client.post("/local/readings/ingest", content=SECRET_ROWS, headers={**content_type, **headers})
    assert answer.status_code == 202


def run_jobs(node: Node) -> None:
    while (run := node.jobs.lease("worker")) is not None:
        node.jobs.run(run)


def test_a_push_is_one_trace_from_the_request_to_the_engine(node: Node, client: httpx.Client) -> None:
    spans: list[FinishedSpan] = []
    with record_spans(spans.append):
        push(client, traceparent=f"00-{TRACE}-{CALLER}-01")
        run_jobs(node)
        wait_until(lambda: len(spans) >= 3, what="the spans of request, job and engine")
    found = {each.name: each for each in spans if each.trace_id == TRACE}
    request, job, engine = (found[name] for name in ("POST /{account}/{dataset}/ingest", "job push", "engine ingest"))
    assert (request.kind, request.parent_id) == (SpanKind.SERVER, CALLER)
    assert job.parent_id == request.span_id
    assert (engine.kind, engine.parent_id) == (SpanKind.CLIENT, job.span_id)
    assert job.began_ns <= engine.began_ns <= engine.ended_ns <= job.ended_ns
    assert request.attributes["http.response.status_code"] == 202
    assert job.attributes.keys() == {"odf.job", "odf.dataset"}
    assert not any(each.error for each in spans)


def test_a_receiver_of_a_webhook_goes_on_with_the_span_of_its_attempt(node: Node, memory: MemoryNode) -> None:
    node.background.relay_outbox()
    node.webhooks.subscribe(
        node.datasets.resolve(parse_dataset_alias("local/readings")),
        url="https://example.org/hook",
        secret=None,
        by=node.operator,
    )
    with serving(node) as served, served.client() as client:
        push(client)
    run_jobs(node)
    node.background.relay_outbox()
    spans: list[FinishedSpan] = []
    with record_spans(spans.append):
        for delivery in node.background.due_deliveries("w", limit=10):
            node.background.deliver(delivery)
    (attempt,) = [each for each in spans if each.name == "webhook"]
    (sent,) = [parse_traceparent(one.headers["traceparent"]) for one in memory.webhooks.received]
    assert sent is not None
    assert (sent.trace_id, sent.span_id, sent.is_sampled) == (attempt.trace_id, attempt.span_id, True)


@pytest.mark.parametrize(("share", "count"), [(0.0, 0), (1.0, 1)])
def test_a_share_of_the_traces_that_begin_here_is_recorded(client: httpx.Client, share: float, count: int) -> None:
    spans: list[FinishedSpan] = []
    with record_spans(spans.append, share=share):
        assert client.get("/datasets").status_code == 200
        wait_until(lambda: len(spans) >= count, what="the span, which ends after the answer")
    assert len(spans) == count


@pytest.mark.parametrize(("flag", "count"), [("00", 0), ("01", 1)])
def test_a_caller_decides_for_its_own_trace(client: httpx.Client, flag: str, count: int) -> None:
    spans: list[FinishedSpan] = []
    with record_spans(spans.append, share=1.0):
        client.get("/datasets", headers={"traceparent": f"00-{TRACE}-{CALLER}-{flag}"})
        wait_until(lambda: len(spans) >= count, what="the span, which ends after the answer")
    assert len([each for each in spans if each.trace_id == TRACE]) == count


def test_what_fails_has_a_code_and_no_text() -> None:
    spans: list[FinishedSpan] = []
    with record_spans(spans.append), pytest.raises(ValueError, match="a value of Atlantis"), span("work"):
        raise ValueError("a value of Atlantis")
    assert [each.error for each in spans] == ["ValueError"]


def test_nothing_is_recorded_unless_somebody_wants_it(node: Node, client: httpx.Client) -> None:
    spans: list[FinishedSpan] = []
    with record_spans(spans.append):
        pass
    push(client)
    run_jobs(node)
    assert spans == []


def test_a_collector_receives_them(node: Node, tmp_path: Path) -> None:
    collector = LoopbackServer(respond=lambda seen: reply(200))
    with collector.serving():
        settings = Settings(workspace=tmp_path, otlp_endpoint=collector.url("/v1/traces"))
        with tracing(settings, "api"), serving(node) as served, served.client() as client:
            push(client, traceparent=f"00-{TRACE}-{CALLER}-01")
            run_jobs(node)
    resources = [each for seen in collector.seen for each in _sent(seen).resource_spans]
    names = {entry.key: entry.value.string_value for entry in resources[0].resource.attributes}
    assert names["service.name"] == "odfabric-api"
    spans = {each.name: each for resource in resources for scope in resource.scope_spans for each in scope.spans}
    job, engine = spans["job push"], spans["engine ingest"]
    assert engine.trace_id == job.trace_id == bytes.fromhex(TRACE)
    assert engine.parent_span_id == job.span_id
    assert not any(b"Atlantis" in _body(seen) for seen in collector.seen)


def test_a_collector_that_is_away_costs_no_request(node: Node, tmp_path: Path) -> None:
    collector = LoopbackServer(respond=lambda seen: reply(200))
    with collector.serving():
        nowhere = collector.url("/v1/traces")
    with (
        tracing(Settings(workspace=tmp_path, otlp_endpoint=nowhere), "api"),
        serving(node) as served,
        served.client() as client,
    ):
        assert client.get("/datasets").status_code == 200


def _body(seen: Seen) -> bytes:
    return gzip.decompress(seen.body) if seen.headers.get("content-encoding") == "gzip" else seen.body


def _sent(seen: Seen) -> ExportTraceServiceRequest:
    return ExportTraceServiceRequest.FromString(_body(seen))
