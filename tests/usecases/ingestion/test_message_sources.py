"""Subscribed broker sources: at least once, acknowledged after the commit."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from odfabric.adapters.unreliable.faults import Fault, FaultPlan
from odfabric.domain.sources.message_rows import mqtt_client_id
from odfabric.errors import Determinate, InvalidManifest
from odfabric.formats.identifiers.did import parse_dataset_id
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.reading.read_tail import ReadTail

SENSORS = """
kind: DatasetSnapshot
version: 1
content:
  name: sensors
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch:
      kind: Mqtt
      host: broker.example
      port: 1883
      topics: [{path: sensors/#, qos: AtLeastOnce}]
    read:
      kind: NdJson
      schema: {fields: [{name: event_time, type: Timestamp}, {name: city, type: String}]}
    merge: {kind: Append}
"""


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def measured(memory: MemoryNode, *cities: str) -> None:
    for city in cities:
        memory.messages.publish("sensors/1", json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": city}).encode())


def pull(memory: MemoryNode, entry: CatalogEntry, *, status: JobStatus = JobStatus.SUCCEEDED) -> dict[str, object]:
    job = memory.finish(memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias)))
    assert job.status is status, (job.result, job.error)
    value: dict[str, object] = json.loads(job.result or job.error or "")
    return value


def cities(memory: MemoryNode, entry: CatalogEntry) -> list[str]:
    tail = memory.node.rows.tail(entry, ReadTail(skip=0, limit=100, data_format="JsonAoS", schema_format=None))
    return [row["city"] for row in tail["data"]]  # type: ignore[attr-defined]


def test_messages_are_taken_once_each_and_wait_between_pulls(memory: MemoryNode) -> None:
    entry = memory.add(SENSORS)
    assert pull(memory, entry)["upToDate"] is True  # the session begins with the first pull
    measured(memory, "A", "B")
    assert pull(memory, entry)["rows"] == 2
    measured(memory, "C")
    assert pull(memory, entry)["rows"] == 1
    assert pull(memory, entry)["upToDate"] is True
    assert cities(memory, entry) == ["A", "B", "C"]


def test_a_pull_takes_as_many_messages_as_the_limit_says(memory: MemoryNode) -> None:
    memory.settings = memory.settings.model_copy(update={"mqtt_messages_max": 3})
    memory.restart()
    entry = memory.add(SENSORS)
    pull(memory, entry)
    measured(memory, *"ABCDE")
    assert [pull(memory, entry)["rows"] for _ in range(2)] == [3, 2]
    assert cities(memory, entry) == list("ABCDE")


def test_a_lost_acknowledgement_brings_the_rows_again_and_loses_none(memory: MemoryNode) -> None:
    entry = memory.add(SENSORS)
    pull(memory, entry)
    measured(memory, "A")
    memory.messages.cut = True
    pull(memory, entry)  # the job is tried again by itself
    assert cities(memory, entry) == ["A", "A"]


def test_a_failed_commit_acknowledges_nothing(memory: MemoryNode, tmp_path: Path) -> None:
    entry = memory.add(SENSORS)
    pull(memory, entry)
    measured(memory, "A")
    memory.messages.publish("sensors/1", b'{"event_time": "yesterday", "city": "B"}')
    for _ in range(2):
        problem = pull(memory, entry, status=JobStatus.FAILED)
        assert (problem["code"], problem["file"], problem["line"]) == ("invalid-data", "messages", 2)
    assert cities(memory, entry) == []


def test_every_call_from_receiving_to_acknowledging_may_fail(tmp_path: Path) -> None:
    """One fault anywhere: every message at least once, at most one batch twice."""
    plan = FaultPlan()
    pull_under(MemoryNode(tmp_path / "watched"), plan)
    names = [call.name for call in plan.calls]
    for number in range(names.index("source.receive"), names.index("source.acknowledge") + 1):
        memory = MemoryNode(tmp_path / str(number))
        entry = pull_under(memory, FaultPlan.single(number, Fault.BEFORE))
        assert cities(memory, entry) in (["A", "B"], ["A", "B", "A", "B"])


def pull_under(memory: MemoryNode, plan: FaultPlan) -> CatalogEntry:
    """Two messages, pulled under a plan; a job that was interrupted is taken up again."""
    entry = memory.add(SENSORS)
    pull(memory, entry)
    measured(memory, "A", "B")
    job = memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias))
    memory.restart(plan)
    for _ in range(3):
        memory.clock.advance(60_000)
        with suppress(Determinate):
            assert memory.finish(job).status is JobStatus.SUCCEEDED
    memory.restart()
    return entry


def test_messages_need_a_reader_of_lines(memory: MemoryNode) -> None:
    with pytest.raises(InvalidManifest) as caught:
        memory.add(SENSORS.replace("kind: NdJson", "kind: Csv"))
    assert caught.value.place.field is not None
    assert caught.value.place.field.endswith("read.kind")


def test_the_password_may_be_a_template(memory: MemoryNode) -> None:
    named = "port: 1883\n      username: reader\n      password: \"${{ env.WORD || 'default' }}\""
    entry = memory.add(SENSORS.replace("port: 1883", named))
    pull(memory, entry)
    assert (memory.messages.steps[-1].username, memory.messages.steps[-1].password) == ("reader", "default")


def test_client_ids_are_what_every_broker_takes(memory: MemoryNode) -> None:
    entry = memory.add(SENSORS)
    name = mqtt_client_id(entry.id)
    assert len(name) == 23
    assert name.isascii()
    assert name.isalnum()
    assert name == mqtt_client_id(parse_dataset_id(str(entry.id)))
