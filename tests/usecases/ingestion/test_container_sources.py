"""Container sources: variables, states, batches, protocol violations."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.domain.sources.source_templates import Value
from odfabric.errors import InvalidManifest, NotFound
from odfabric.model.jobs.job import JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.model.source import EnvVar, FetchStepContainer
from odfabric.ports.sources.containers import ContainerAnswer, ContainerRun
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.polling.container_fetch import container_run

MANIFEST = """
kind: DatasetSnapshot
version: 1
content:
  name: fetched
  kind: Root
  metadata:
  - kind: SetPollingSource
    fetch: {kind: Container, image: img, args: [--all], env: [{name: REGION, value: north}]}
    read:
      kind: NdJson
      schema: {fields: [{name: event_time, type: Timestamp}, {name: city, type: String}]}
    merge: {kind: Append}
"""


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    memory = MemoryNode(tmp_path)
    memory.settings = memory.settings.model_copy(update={"container_engine": "/engine", "container_images": ("*",)})
    memory.restart()
    return memory


def row(day: int) -> bytes:
    return json.dumps({"event_time": f"2026-01-{day:02}T00:00:00Z", "city": "A"}).encode() + b"\n"


def pull(memory: MemoryNode, *, status: JobStatus = JobStatus.SUCCEEDED) -> dict[str, object]:
    (entry,) = memory.node.datasets.page(after=None, limit=10)
    job = memory.finish(memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias)))
    assert job.status is status, (job.result, job.error)
    value: dict[str, object] = json.loads(job.result or job.error or "")
    return value


def counting(last: int) -> object:
    """A container that prints a day at a time, up to `last`."""

    def run(given: ContainerRun) -> tuple[bytes, ContainerAnswer]:
        at = int(given.environment["ODF_ETAG"] or 0)
        if at == last:
            return b"", ContainerAnswer(size=0, new_etag=str(at))
        data = row(at + 1)
        return data, ContainerAnswer(size=len(data), new_etag=str(at + 1), has_more=at + 1 < last)

    return run


def test_a_container_is_run_until_it_has_no_more_and_goes_on_from_its_state(memory: MemoryNode) -> None:
    memory.add(MANIFEST)
    memory.containers.by_image["img"] = counting(3)  # type: ignore[assignment]
    first = pull(memory)
    assert (first["rows"], len(first["blocks"])) == (3, 4)  # type: ignore[arg-type]
    assert pull(memory)["upToDate"] is True
    memory.containers.by_image["img"] = counting(4)  # type: ignore[assignment]
    assert pull(memory)["rows"] == 1
    run = memory.containers.runs[-1]
    assert run.args == ("--all",)
    assert run.environment["REGION"] == "north"
    assert (run.environment["ODF_ETAG"], run.environment["ODF_LAST_MODIFIED"]) == ("3", "")
    assert run.environment["ODF_BATCH_SIZE"] == "10000"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (ContainerAnswer(size=60, new_etag="1"), "nothing is new, and prints data"),
        (ContainerAnswer(size=60, has_more=True), "not how far it came"),
        (ContainerAnswer(size=0, new_etag="1", has_more=True), "not how far it came"),
        (ContainerAnswer(size=60, new_last_modified="yesterday"), "is no time"),
    ],
)
def test_containers_that_break_the_protocol_commit_nothing(
    memory: MemoryNode, answer: ContainerAnswer, said: str
) -> None:
    memory.add(MANIFEST)
    memory.containers.by_image["img"] = counting(1)  # type: ignore[assignment]
    pull(memory)
    memory.containers.by_image["img"] = lambda run: (row(9)[: answer.size], answer)
    problem = pull(memory, status=JobStatus.FAILED)
    assert problem["code"] == "invalid-data"
    assert said in str(problem["message"])


def test_containers_are_refused_where_none_are_permitted(tmp_path: Path) -> None:
    with pytest.raises(InvalidManifest):
        MemoryNode(tmp_path).add(MANIFEST)


def test_variables_and_templates_of_a_run() -> None:
    step = FetchStepContainer(
        image="img:${{ env.VERSION || '1' }}",
        args=("${{ env.KEY }}",),
        env=(EnvVar(name="KEY"), EnvVar(name="ODF_BATCH_SIZE", value="5"), EnvVar(name="ODF_ETAG", value="mine")),
    )
    values = {"KEY": Value("secret-word", secret=True)}
    run, secrets = container_run(step, None, values.get)
    assert (run.image, run.args, secrets) == ("img:1", ("secret-word",), ("secret-word",))
    assert {"KEY": "secret-word", "ODF_BATCH_SIZE": "5", "ODF_ETAG": ""}.items() <= run.environment.items()
    with pytest.raises(NotFound):
        container_run(step, None, {}.get)
    wrong = FetchStepContainer(image="img", env=(EnvVar(name="ODF_BATCH_SIZE", value="many"),))
    with pytest.raises(InvalidManifest, match="not a number"):
        container_run(wrong, None, {}.get)
