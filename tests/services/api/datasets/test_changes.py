"""Changes over HTTP without a cursor: one answer, a waiting one, a stream."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import JobStatus
from odfabric.model.people.account import DatasetRole
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from tests.services.api.people import People
from tests.services.api.serving import serving
from tests.support.waiting import wait_until
from tests.usecases.manifests import ROOT

EVENT_STREAM = {"accept": "text/event-stream"}


def add(memory: MemoryNode, name: str) -> CatalogEntry:
    return memory.add(ROOT.replace("name: readings", f"name: {name}"))


def push(memory: MemoryNode, entry: CatalogEntry, *cities: str) -> None:
    rows = "".join(json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": city}) + "\n" for city in cities)
    job = memory.node.requests.push(PushData(dataset=entry.id, body=iter([rows.encode()])))
    assert memory.finish(job).status is JobStatus.SUCCEEDED  # type: ignore[arg-type]
    memory.node.background.relay_outbox()


def cities(event: dict[str, object]) -> list[str]:
    return [row["city"] for row in event["rows"]]  # type: ignore[attr-defined]


@contextmanager
def streamed(client: httpx.Client, path: str, **headers: str) -> Iterator[Iterator[dict[str, object]]]:
    """Events of a stream, each with the members `id`, `event` and `data`."""
    with client.stream("GET", path, headers={**EVENT_STREAM, **headers}) as answer:
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield _events(answer.iter_lines())


def _events(lines: Iterator[str]) -> Iterator[dict[str, object]]:
    event: dict[str, object] = {}
    for line in lines:
        name, _, value = line.partition(": ")
        if line == "" and event:
            yield event
            event = {}
        elif name:
            event[name] = json.loads(value) if name == "data" else value


@pytest.fixture
def raw(served: object) -> Iterator[httpx.Client]:
    """Without the check of whole answers: streams have none."""
    with served.client() as found:  # type: ignore[attr-defined]
        yield found


def test_positions_are_kept_by_the_consumer(client: httpx.Client, memory: MemoryNode) -> None:
    entry, path = add(memory, "kept"), "/local/kept/changes"
    push(memory, entry, "A", "B")
    baseline = client.get(path, params={"from": "baseline"}).json()
    assert (baseline["event"]["kind"], cities(baseline["event"])) == ("baseline", ["A", "B"])
    nothing = client.get(path, params={"from": baseline["position"]}).json()
    assert nothing == {"event": None, "position": baseline["position"]}
    push(memory, entry, "C")
    changes = client.get(path, params={"from": baseline["position"], "limit": 1}).json()
    assert (changes["event"]["kind"], cities(changes["event"])) == ("changes", ["C"])
    assert client.get(path, params={"from": baseline["position"]}).json() == changes


def test_an_answer_waits_for_a_change(client: httpx.Client, memory: MemoryNode) -> None:
    entry, path = add(memory, "awaited"), "/local/awaited/changes"
    position = client.get(path).json()["position"]
    pushing = threading.Thread(target=push, args=(memory, entry, "late"))
    pushing.start()
    answer = client.get(path, params={"from": position}, headers={"prefer": "wait=20"})
    pushing.join()
    assert cities(answer.json()["event"]) == ["late"]


def test_an_answer_does_not_wait_longer_than_it_was_asked(client: httpx.Client, memory: MemoryNode) -> None:
    add(memory, "quiet")
    answer = client.get("/local/quiet/changes", headers={"prefer": "wait=1"})
    assert answer.json()["event"] is None


def test_a_stream_goes_on_where_it_broke(raw: httpx.Client, memory: MemoryNode) -> None:
    entry, path = add(memory, "streamed"), "/local/streamed/changes"
    push(memory, entry, "A")
    with streamed(raw, f"{path}?from=baseline") as events:
        first = next(events)
        assert (first["event"], cities(first["data"])) == ("baseline", ["A"])  # type: ignore[arg-type]
        push(memory, entry, "B")
        second = next(events)
        assert (second["event"], cities(second["data"])) == ("changes", ["B"])  # type: ignore[arg-type]
    for city in "CDE":
        push(memory, entry, city)
    with streamed(raw, path, **{"last-event-id": str(second["id"])}) as events:
        assert [cities(next(events)["data"]) for _ in range(3)] == [["C"], ["D"], ["E"]]  # type: ignore[arg-type]


def test_many_streams_hear_one_change(raw: httpx.Client, memory: MemoryNode) -> None:
    entry, heard = add(memory, "popular"), []
    ready = threading.Barrier(9)

    def listen() -> None:
        with streamed(raw, "/local/popular/changes?from=start") as events:
            ready.wait(20)
            heard.append(cities(next(events)["data"]))  # type: ignore[arg-type]

    listeners = [threading.Thread(target=listen) for _ in range(8)]
    for each in listeners:
        each.start()
    ready.wait(20)
    push(memory, entry, "all")
    for each in listeners:
        each.join(20)
    assert heard == [["all"]] * 8


@pytest.mark.parametrize(
    ("given", "told"), [("yesterday", "not a place to start from"), ("listen.0.0.f1620", "not a position")]
)
def test_what_is_no_position_is_refused(client: httpx.Client, memory: MemoryNode, given: str, told: str) -> None:
    add(memory, f"refused{len(given)}")
    for headers in ({}, EVENT_STREAM):
        answer = client.get(f"/local/refused{len(given)}/changes", params={"from": given}, headers=headers)
        assert answer.status_code == 400
        assert told in answer.text


def test_a_dataset_that_was_made_again_is_told_by_a_reset(client: httpx.Client, memory: MemoryNode) -> None:
    entry = add(memory, "remade")
    push(memory, entry, "A")
    position = client.get("/local/remade/changes").json()["position"]
    memory.node.datasets.delete(entry)
    push(memory, add(memory, "remade"), "B")
    reset = client.get("/local/remade/changes", params={"from": position}).json()
    assert reset["event"]["kind"] == "reset"
    following = client.get("/local/remade/changes", params={"from": reset["position"]}).json()
    assert cities(following["event"]) == ["B"]


def test_a_stream_ends_with_the_right_to_read(tmp_path: Path) -> None:
    people = People(tmp_path)
    entry = people.add("ann", "readings")
    people.grant(entry, "rita", DatasetRole.READER)
    seconds = [0.0]
    with serving(people.node) as served, served.client(people.issue("rita")[1]) as client:
        served.app.state.monotonic = lambda: seconds[0]
        with streamed(client, "/ann/readings/changes?from=now") as events:
            wait_until(lambda: served.app.state.capacity.streams.taken == 1, what="the stream")
            people.grant(entry, "rita", None)
            seconds[0] = 60.0
            push(people.memory, entry, "secret")
            ended = next(events)
            assert (ended["event"], ended["data"]["code"]) == ("end", "not-found")  # type: ignore[index]
            assert list(events) == []
        wait_until(lambda: served.app.state.capacity.streams.taken == 0, what="the end of the stream")


def test_streams_are_bounded(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    memory.settings = memory.settings.model_copy(update={"account_streams_at_once_max": 1})
    memory.restart()
    add(memory, "bounded")
    with serving(memory.node) as served, served.client() as client:
        with streamed(client, "/local/bounded/changes"):
            wait_until(lambda: served.app.state.capacity.streams.taken == 1, what="the stream")
            refused = client.get("/local/bounded/changes")
            assert (refused.status_code, refused.json()["limit"]) == (429, "account_streams_at_once_max")
        wait_until(lambda: served.app.state.capacity.streams.taken == 0, what="the end of the stream")
        assert client.get("/local/bounded/changes").status_code == 200


def test_streams_take_no_place_of_other_requests(tmp_path: Path) -> None:
    memory = MemoryNode(tmp_path)
    memory.settings = memory.settings.model_copy(update={"requests_at_once_max": 2})
    memory.restart()
    add(memory, "waited")
    with serving(memory.node) as served, served.client() as client, ExitStack() as streams:
        for _ in range(5):
            streams.enter_context(streamed(client, "/local/waited/changes"))
        wait_until(lambda: served.app.state.capacity.streams.taken == 5, what="the streams")
        assert client.get("/local/waited/changes").status_code == 200
