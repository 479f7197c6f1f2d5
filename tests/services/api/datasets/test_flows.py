"""Flows over HTTP: set, show, pause, run, cancel; refusals name the member."""

from __future__ import annotations

import json
from collections.abc import Iterator

import httpx
import pytest

from odfabric.model.identity import DatasetAlias, Name
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.serving import Served, serving
from tests.usecases.manifests import DERIVED, POLLED, ROOT

ROW = '{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


@pytest.fixture(scope="module")
def served(memory: MemoryNode) -> Iterator[Served]:
    """Without a worker beside it: tests work themselves."""
    with serving(memory.node) as found:
        yield found


def polled(memory: MemoryNode, name: str) -> str:
    memory.add(POLLED.replace("name: polled", f"name: {name}"))
    return f"/local/{name}/flows"


def derived(memory: MemoryNode, name: str) -> str:
    """Two datasets; the second is derived from the first."""
    memory.add(ROOT.replace("name: readings", f"name: {name}"))
    memory.add(DERIVED.replace("name: copied", f"name: {name}-copy").replace("readings", name))
    return f"/local/{name}-copy/flows"


def push(memory: MemoryNode, name: str) -> None:
    """Push a row, and do what follows."""
    entry = memory.node.datasets.resolve(DatasetAlias(None, Name(name)))
    memory.node.requests.push(PushData(dataset=entry.id, body=iter([ROW.encode()])))
    memory.work()


def test_a_flow_is_set_and_told_with_all_its_members(client: httpx.Client, memory: MemoryNode) -> None:
    path = polled(memory, "hourly")
    assert client.get(path).json() == {"flows": []}
    rule = {
        "trigger": {"cron": "30 6 * * 1-5", "timeZone": "Europe/Berlin"},
        "retry": {"attempts": 1},
        "latestStart": "1h",
    }
    answer = client.put(f"{path}/poll", json=rule)
    assert (answer.status_code, answer.headers["etag"]) == (200, '"v1"')
    assert answer.json()["rule"] == {
        "trigger": {"cron": "30 6 * * 1-5", "timeZone": "Europe/Berlin"},
        "retry": {"attempts": 1, "pause": "10s", "backoff": "exponential-with-jitter"},
        "overlap": "queue-one",
        "latestStart": "1h",
        "stopAfterFailures": 5,
        "fetchUncacheable": False,
    }
    assert answer.json()["summary"] == "cron 30 6 * * 1-5 (Europe/Berlin)"
    assert answer.json()["nextAt"] == "2026-01-01T05:30:00Z"
    assert client.put(f"{path}/poll", json=answer.json()["rule"]).json()["rule"] == answer.json()["rule"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "trigger"),
        ({"trigger": {}}, "trigger"),
        ({"trigger": {"every": "1h", "cron": "* * * * *"}}, "trigger"),
        ({"trigger": {"every": "often"}}, "trigger.every"),
        ({"trigger": {"every": "1s"}}, "flow_every_s_min"),
        ({"trigger": {"cron": "61 * * * *"}}, "minute"),
        ({"trigger": {"cron": "0 0 30 2 *"}}, "day-of-month"),
        ({"trigger": {"cron": "* * * * * *"}}, "five fields"),
        ({"trigger": {"cron": "* * * * *", "timeZone": "Mars/Base"}}, "Mars/Base"),
        ({"trigger": {"onInputs": {}}}, "follows inputs"),
        ({"trigger": {"every": "1h"}, "retry": {"attempts": 99}}, "retry.attempts"),
        ({"trigger": {"every": "1h"}, "retry": {"backoff": "never"}}, "retry.backoff"),
        ({"trigger": {"every": "1h"}, "overlap": "both"}, "overlap"),
        ({"trigger": {"every": "1h"}, "stopAfterFailures": 0}, "stopAfterFailures"),
        ({"trigger": {"every": "1h"}, "color": "red"}, "color"),
    ],
)
def test_a_wrong_rule_is_refused(
    client: httpx.Client, memory: MemoryNode, body: dict[str, object], told: str, request: pytest.FixtureRequest
) -> None:
    name = "wrong" + str(abs(hash(request.node.name)) % 10**9)
    path = polled(memory, name)
    answer = client.put(f"{path}/poll", json=body)
    assert answer.status_code == 400
    assert told in answer.text
    assert client.get(path).json() == {"flows": []}


def test_kinds_that_a_dataset_cannot_have_are_refused(client: httpx.Client, memory: MemoryNode) -> None:
    path = polled(memory, "kinds")
    answer = client.put(f"{path}/transform", json={"trigger": {"every": "1h"}})
    assert (answer.status_code, answer.json()["hint"]) == (400, "its flows are poll or verify")
    assert client.put(f"{path}/dance", json={"trigger": {"every": "1h"}}).status_code == 400


def test_a_derivative_dataset_follows_and_says_what_it_did(client: httpx.Client, memory: MemoryNode) -> None:
    path = derived(memory, "followed")
    push(memory, "followed")
    (flow,) = client.get(path).json()["flows"]
    assert (flow["kind"], flow["isDefault"], flow["status"], flow["waits"]) == ("transform", True, "active", None)
    assert flow["summary"] == "when inputs change"
    (run,) = flow["runs"]
    assert (run["status"], run["result"]["rows"]) == ("succeeded", 1)
    assert "local/followed" in [cause.get("alias") for cause in run["causes"]]
    assert client.get(f"/runs/{run['id']}").json() == run
    assert client.get(f"/jobs/{run['job']}").json()["status"] == "succeeded"
    assert flow["id"] in [each["id"] for each in client.get("/flows").json()["flows"]]


def test_paused_resumed_and_run_by_hand(client: httpx.Client, memory: MemoryNode) -> None:
    path = derived(memory, "rested")
    assert client.patch(f"{path}/transform", json={"paused": True}).json()["status"] == "paused"
    push(memory, "rested")
    answer = client.post(f"{path}/transform/runs")
    assert (answer.status_code, answer.json()["status"]) == (202, "waiting")
    assert answer.headers["location"] == f"/runs/{answer.json()['id']}"
    memory.work()
    assert client.get(answer.headers["location"]).json()["status"] == "succeeded"
    assert client.patch(f"{path}/transform", json={"paused": False}).json()["status"] == "active"


def test_a_run_that_waits_says_why_and_is_cancelled(client: httpx.Client, memory: MemoryNode) -> None:
    path = derived(memory, "buffered")
    push(memory, "buffered")
    rule = {"trigger": {"onInputs": {"records": 100, "wait": "1h"}}}
    assert client.put(f"{path}/transform", json=rule).json()["isDefault"] is False
    push(memory, "buffered")
    (flow,) = client.get(path).json()["flows"]
    assert flow["waits"]["reason"] == "records"
    assert flow["waits"]["text"].startswith("1 of 100 new records are there, or until 2026-01-01T")
    run = flow["runs"][0]
    assert client.delete(f"/runs/{run['id']}").json()["status"] == "cancelled"
    assert client.delete(f"/runs/{run['id']}").json()["status"] == "cancelled"
    assert client.get(path).json()["flows"][0]["waits"] is None


def test_who_has_seen_an_older_version_changes_nothing(client: httpx.Client, memory: MemoryNode) -> None:
    path = polled(memory, "edited") + "/poll"
    seen = client.put(path, json={"trigger": {"every": "1h"}}).headers["etag"]
    assert client.put(path, json={"trigger": {"every": "2h"}}, headers={"if-match": seen}).status_code == 200
    answer = client.put(path, json={"trigger": {"every": "3h"}}, headers={"if-match": seen})
    assert (answer.status_code, answer.json()["code"]) == (412, "changed")
    assert client.delete(path).status_code == 204
    assert client.delete(path).status_code == 404


def test_the_flow_of_a_derivative_dataset_is_paused_rather_than_removed(
    client: httpx.Client, memory: MemoryNode
) -> None:
    answer = client.delete(f"{derived(memory, 'kept')}/transform")
    assert (answer.status_code, answer.json()["hint"]) == (400, "pause it")


def test_a_failed_run_has_its_problem(client: httpx.Client, memory: MemoryNode) -> None:
    path = polled(memory, "failing")
    memory.files.add("arrivals/1.ndjson", b"oops\n", modified_at=memory.clock.now())
    client.put(f"{path}/poll", json={"trigger": {"every": "1d"}})
    memory.work()
    run = client.get(path).json()["flows"][0]["runs"][0]
    assert (run["status"], run["error"]["code"], run["error"]["line"]) == ("failed", "invalid-data", 1)
    assert json.dumps(run)
