"""Dashboards and alerts ask for metrics and labels that a node really has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from ruamel.yaml import YAML

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.formats.manifests.manifest_yaml import parse_snapshots
from odfabric.model.jobs.duty import Duty
from odfabric.model.jobs.flow import Every, FlowKind, FlowRule
from odfabric.model.subscriptions.subscription import WebhookResponse
from odfabric.settings import Settings
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring import Node, open_node, prepare_workspace
from tests.services.api.serving import TOKEN, serving
from tests.usecases.manifests import DERIVED, ROOT

DEPLOY = Path(__file__).parents[4] / "deploy"
OF_PROMETHEUS = {"job", "instance", "le"}
KEYWORDS = {"and", "or", "unless", "bool", "offset", "on", "ignoring", "group_left", "group_right", "by", "without"}
NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
ROWS = b'{"event_time": "2026-01-01T00:00:00Z", "city": "Delft", "value": 1}\n'

Told = dict[str, set[str]]
"""Names of samples with the labels that they have."""


def dashboard() -> list[str]:
    panels = json.loads((DEPLOY / "grafana/odfabric.json").read_text())["panels"]
    return [target["expr"] for panel in panels for target in panel.get("targets", ())]


def rules() -> list[dict[str, Any]]:
    groups = YAML(typ="safe").load(DEPLOY / "prometheus/alerts.yml")["groups"]
    return [rule for group in groups for rule in group["rules"]]


def asked(expression: str) -> tuple[dict[str, set[str]], set[str]]:
    """Metrics of a PromQL expression with labels of selection and grouping."""
    text = re.sub(r'"[^"]*"', '""', expression)
    text = re.sub(r"\[[^\]]*\]", "", text)
    grouped: set[str] = set()

    def group(found: re.Match[str]) -> str:
        grouped.update(re.findall(NAME, found[2]))
        return ""

    text = re.sub(r"\b(by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)", group, text)
    metrics: dict[str, set[str]] = {}
    for name, called, selector in re.findall(rf"(?<![\w$.])({NAME})\b\s*(\()?(?:\{{([^}}]*)\}})?", text):
        if not called and name not in KEYWORDS:
            labels = re.findall(rf"({NAME})\s*(?:=~|!~|!=|=)", selector)
            metrics.setdefault(name, set()).update(labels)
    return metrics, grouped


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What a node gives over HTTP after a little of everything that it measures."""
    settings = Settings(workspace=tmp_path_factory.mktemp("node") / "workspace")
    prepare_workspace(settings)
    with open_node(settings, engine=MemoryEngine(settings.workspace / "exchange")) as node:
        work(node)
        with serving(node) as served, served.client() as client:
            assert client.get("/local/readings").status_code == 200
            assert client.get("/no/such/thing/at/all").status_code == 404
            text = client.get("/system/metrics").text
    found: Told = {}
    for family in text_string_to_metric_families(text):
        found.setdefault(family.name, set())
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def work(node: Node) -> None:
    for snapshot in parse_snapshots(f"{ROOT}---\n{DERIVED}", file=""):
        node.datasets.create(snapshot, node.operator)
    entry = node.datasets.resolve(parse_dataset_alias("local/readings"))
    node.flows.set(entry, FlowKind.VERIFY, FlowRule(trigger=Every(60)), by=node.operator)
    node.background.relay_outbox()
    node.webhooks.subscribe(entry, url="https://1.1.1.1/hook", secret=None, by=node.operator)
    for _ in range(2):
        node.requests.push(PushData(dataset=entry.id, media_type="application/x-ndjson", body=iter([ROWS])))
    run = node.jobs.lease("w")
    assert run is not None
    node.jobs.run(run)
    node.background.relay_outbox()
    node.flows.step("w")
    node.timings.webhook_attempt(
        node.background.due_deliveries("w", limit=1)[0], is_delivered=True, now=node.ports.clock.now()
    )
    for duty in Duty:
        node.duties.ended(duty, "w", error=None)


def test_what_an_expression_asks_for() -> None:
    metrics, grouped = asked('sum by (le, kind) (rate(a_b{x="1", y=~"c|d"}[5m])) / on (z) e > 0.5 and absent(f)')
    assert metrics == {"a_b": {"x", "y"}, "e": set(), "f": set()}
    assert grouped == {"le", "kind", "z"}


EXPRESSIONS = sorted({*dashboard(), *(rule["expr"] for rule in rules())})


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_everything_that_is_asked_for_is_told(expression: str, told: Told) -> None:
    metrics, grouped = asked(expression)
    assert metrics
    assert sorted(set(metrics) - set(told)) == []
    for name, labels in metrics.items():
        assert labels <= told[name] | OF_PROMETHEUS, name
    known = set().union(*(told[name] for name in metrics)) | OF_PROMETHEUS
    assert grouped <= known, "a label that none of its metrics has"


def test_each_rule_says_what_to_do() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(names) == len(set(names))
    for rule in rules():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
        assert rule["annotations"]["description"].endswith(".")


def test_requests_are_told_by_template_and_not_by_path(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    memory.add(ROOT)
    memory.webhooks.script.append(WebhookResponse(204))
    node = memory.node
    with serving(node) as served, served.client() as client, served.client("odf_wrong") as stranger:
        client.get("/local/readings")
        client.get("/local/secret-name")
        client.request("BREW", "/local/readings")
        stranger.get("/local/readings/tail?limit=7")
        client.get("/-/no/page/of/this/node")
        text = client.get("/system/metrics").text
    (family,) = [one for one in text_string_to_metric_families(text) if one.name == "odf_http_request_seconds"]
    counted = {
        (one.labels["method"], one.labels["route"], one.labels["status"]): one.value
        for one in family.samples
        if one.name.endswith("_count")
    }
    assert counted == {
        ("GET", "/{account}/{dataset}", "2xx"): 1.0,
        ("GET", "/{account}/{dataset}", "4xx"): 1.0,
        ("other", "/{account}/{dataset}", "4xx"): 1.0,
        ("GET", "/{account}/{dataset}/tail", "4xx"): 1.0,
        ("GET", "other", "4xx"): 1.0,
    }
    assert "secret-name" not in text
    assert TOKEN not in text
