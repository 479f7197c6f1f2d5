"""`odf flow` and `odf webhook` on a node, flows on a workspace: output, refusals."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.subscriptions.subscription import WebhookResponse
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.serving import TOKEN, serving
from tests.support.people_contract import Command
from tests.usecases.manifests import DERIVED, POLLED, ROOT

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'
URL = "https://receiver.example/hook"
FLOW = """
kind: odfabric/Flow
version: 1
content: {dataset: polled, flow: poll, rule: {trigger: {cron: "0 6 * * *"}}}
"""


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    found = MemoryNode(tmp_path / "node")
    for manifest in (ROOT, DERIVED, POLLED):
        found.add(manifest)
    return found


@pytest.fixture
def odf(memory: MemoryNode, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    with serving(memory.node) as served:
        yield Command(capsys, "--node", served.url, "--token", TOKEN)


def named(memory: MemoryNode, name: str) -> CatalogEntry:
    return memory.node.datasets.resolve(DatasetAlias(None, Name(name)))


def push(memory: MemoryNode) -> None:
    memory.node.requests.push(PushData(dataset=named(memory, "readings").id, body=iter([ROW])))
    memory.work()


def deliver(memory: MemoryNode) -> None:
    for delivery in memory.node.background.due_deliveries("worker", limit=9):
        memory.node.background.deliver(delivery)


class TestFlows:
    def test_a_schedule_is_set_shown_paused_and_removed(self, memory: MemoryNode, odf: Command) -> None:
        assert "poll of local/polled: every 15m (active, next at" in odf(
            "flow", "set", "polled", "poll", "--every", "15m"
        )
        assert odf("flow", "pause", "polled", "poll").startswith("poll of local/polled: every 15m (paused")
        assert "(active" in odf("flow", "resume", "polled", "poll")
        (flow,) = odf.json("flow", "list", "polled")
        assert flow["rule"]["trigger"] == {"every": "15m"}
        assert "local/polled" in odf("flow", "list")
        assert odf("flow", "remove", "polled", "poll") == "removed poll of local/polled\n"
        assert odf.json("flow", "list", "polled") == []

    def test_all_options_reach_the_rule(self, odf: Command) -> None:
        options = ["--cron", "30 6 * * *", "--time-zone", "Europe/Berlin", "--attempts", "1", "--pause", "1m"]
        options += ["--backoff", "linear", "--skip-overlap", "--latest-start", "2h", "--stop-after", "0"]
        assert odf.json("flow", "set", "polled", "poll", *options, "--fetch-uncacheable")["rule"] == {
            "trigger": {"cron": "30 6 * * *", "timeZone": "Europe/Berlin"},
            "retry": {"attempts": 1, "pause": "1m", "backoff": "linear"},
            "overlap": "skip",
            "latestStart": "2h",
            "stopAfterFailures": None,
            "fetchUncacheable": True,
        }

    @pytest.mark.parametrize(
        ("options", "told"),
        [
            ([], "one of --every, --cron and --on-inputs"),
            (["--every", "1h", "--cron", "* * * * *"], "one of --every, --cron and --on-inputs"),
            (["--every", "often"], "write a number and a unit"),
            (["--every", "1s"], "every 10s at most"),
            (["--on-inputs"], "only a derivative dataset follows inputs"),
        ],
    )
    def test_a_wrong_rule_is_refused_with_the_way_out(self, odf: Command, options: list[str], told: str) -> None:
        odf("flow", "set", "polled", "poll", *options, code=1)
        assert told in odf.err

    def test_a_run_is_followed_and_its_log_tells_why_it_ran(self, memory: MemoryNode, odf: Command) -> None:
        push(memory)
        listed = odf("flow", "list", "copied")
        assert "input local/readings" in listed
        assert "1 rows" in listed
        run = odf.json("flow", "list", "copied")[0]["runs"][0]["id"]
        assert odf("flow", "logs", run, "--follow").startswith(f"run {run}: succeeded, attempt 1\n")
        waiting = odf.json("flow", "run", "copied", "transform")
        assert odf("flow", "cancel", waiting["id"]) == f"run {waiting['id']} is cancelled\n"
        odf("flow", "logs", "none", code=1)
        assert "run not found: none" in odf.err

    def test_flows_are_kept_in_a_file(self, odf: Command, tmp_path: Path) -> None:
        file = tmp_path / "flows.yaml"
        file.write_text(FLOW)
        assert "cron 0 6 * * * (UTC)" in odf("flow", "apply", str(file))
        file.write_text(FLOW.replace("0 6 * * *", "at six"))
        odf("flow", "apply", str(file), code=1)
        assert "five fields" in odf.err
        file.write_text(FLOW.replace("trigger", "triger"))
        odf("flow", "apply", str(file), code=1)
        assert "line 4" in odf.err

    def test_a_workspace_keeps_flows_for_a_node(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        odf = Command(capsys, "--workspace", str(tmp_path / "workspace"))
        odf("init")
        (tmp_path / "polled.yaml").write_text(POLLED)
        odf("add", str(tmp_path / "polled.yaml"))
        assert odf.json("flow", "set", "polled", "poll", "--every", "1h")["summary"] == "every 1h"
        assert odf.json("flow", "pause", "polled", "poll")["status"] == "paused"
        run = odf.json("flow", "run", "polled", "poll")
        assert odf.json("flow", "logs", run["id"])["status"] == "waiting"
        assert odf.json("flow", "cancel", run["id"])["status"] == "cancelled"
        assert [flow["status"] for flow in odf.json("flow", "list")] == ["paused"]
        assert odf("flow", "remove", "polled", "poll") == "removed poll of local/polled\n"
        odf("webhook", "list", "polled", code=1)
        assert "--node" in odf.err


class TestWebhooks:
    def test_an_account_and_the_node_are_followed(self, memory: MemoryNode, odf: Command) -> None:
        types = "flow.failed, dataset.created"
        account = odf.json("webhook", "add", "--account", "local", "--events", types, URL)
        node = odf.json("webhook", "add", "--whole-node", URL)
        assert account["events"] == ["dataset.created", "flow.failed"]
        assert len(node["events"]) == 14
        assert [each["id"] for each in odf.json("webhook", "list", "@local")] == [account["id"]]
        assert [each["id"] for each in odf.json("webhook", "list", "@")] == [node["id"]]
        assert odf("webhook", "test", "@", node["id"]).startswith("the receiver answered 204 after")
        assert odf("webhook", "remove", "@local", account["id"]) == f"removed {account['id']}\n"
        odf("webhook", "add", "--whole-node", "readings", URL, code=2)
        odf("webhook", "add", "--whole-node", "--events", "flow.exploded", URL, code=1)
        assert "events" in odf.err

    def test_a_receiver_is_told_tested_paused_and_given_a_new_secret(self, memory: MemoryNode, odf: Command) -> None:
        made = odf.json("webhook", "add", "readings", URL)
        one = made["id"]
        assert made["secret"].startswith("whsec_")
        assert made["onlyWithData"] is False
        filtered = odf.json("webhook", "add", "readings", URL, "--only-with-data", "--rows")
        assert (filtered["onlyWithData"], filtered["rows"]) == (True, True)
        push(memory)
        followed = odf.json("webhook", "add", "readings", URL, "--columns", "city, value")
        assert (followed["columns"], followed["rows"]) == (["city", "value"], False)
        odf("webhook", "add", "readings", URL, "--columns", "town", code=1)
        assert "it has event_time, city, value" in odf.err
        odf("webhook", "remove", "readings", followed["id"])
        assert odf("webhook", "remove", "readings", filtered["id"]) == f"removed {filtered['id']}\n"
        assert odf("webhook", "test", "readings", one).startswith("the receiver answered 204 after")
        assert odf("webhook", "pause", "readings", one) == f"subscription {one} is paused\n"
        assert "paused" in odf("webhook", "list", "readings")
        assert odf("webhook", "resume", "readings", one) == f"subscription {one} is active\n"
        rotated = odf("webhook", "rotate", "readings", one, "--overlap", "1h")
        assert "shown only now; the old one signs too until 2026-01-01T01:00:00" in rotated
        assert made["secret"] not in rotated
        assert odf("webhook", "remove", "readings", one) == f"removed {one}\n"
        assert odf.json("webhook", "list", "readings") == []

    def test_what_failed_is_seen_and_delivered_again(self, memory: MemoryNode, odf: Command) -> None:
        one = odf.json("webhook", "add", "readings", URL, "--format", "cloudevents")["id"]
        memory.webhooks.script.extend([WebhookResponse(500), WebhookResponse(503)])
        push(memory)
        deliver(memory)
        log = odf("webhook", "log", "readings", one)
        assert "the receiver answered 500" in log
        assert odf.json("webhook", "log", "readings", one)[0]["status"] == "pending"
        odf("webhook", "test", "readings", one, code=1)
        memory.clock.advance(3_600_000)
        deliver(memory)
        assert odf.json("webhook", "log", "readings", one)[0]["status"] == "delivered"
        assert odf("webhook", "replay", "readings", one, "--from", "1") == "1 to be delivered again\n"
        deliver(memory)
        assert len({each.headers["webhook-id"] for each in memory.webhooks.received if b"head-moved" in each.body}) == 1

    def test_others_ids_are_unknown(self, odf: Command) -> None:
        odf("webhook", "log", "readings", "0" * 32, code=1)
        assert "subscription not found" in odf.err
