"""A command that is interrupted hands back what it was doing.

One that waits says for what.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from odfabric.adapters.memory.engine import MemoryEngine
from odfabric.cli.app import main
from odfabric.cli.backends.backend import PushFile
from odfabric.cli.backends.workspace import WorkspaceBackend
from odfabric.formats.identifiers.references import parse_dataset_ref
from odfabric.model.engine import IngestRequest, IngestResult
from odfabric.model.jobs.job import JobStatus
from odfabric.ports.engine import ProgressListener
from odfabric.settings import Settings
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring import Node, open_node
from odfabric.wiring.jobs.waiting import waited_for
from tests.usecases.manifests import ROOT

ROW = '{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


class SignalledEngine(MemoryEngine):
    """While it ingests, its process gets a signal, once."""

    number: signal.Signals | None = None

    def ingest(self, request: IngestRequest, *, progress: ProgressListener) -> IngestResult:
        """See the port."""
        number, self.number = self.number, None
        if number is not None:
            signal.raise_signal(number)
        return super().ingest(request, progress=progress)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "rows.ndjson").write_text(ROW)
    (tmp_path / "m.yaml").write_text(ROOT)
    for verb in (["init"], ["add", str(tmp_path / "m.yaml")]):
        assert main(["--workspace", str(tmp_path / "w"), *verb]) == 0
    return tmp_path / "w"


@contextmanager
def opened(workspace: Path, number: signal.Signals | None = None) -> Iterator[Node]:
    engine = SignalledEngine(workspace / "exchange")
    engine.number = number
    with open_node(Settings(workspace=workspace), engine=engine) as node:
        yield node


def push(node: Node, name: str) -> dict[str, object]:
    file = str(node.settings.workspace.parent / "rows.ndjson")
    asked = PushFile(path=file, name=file, source_name=None, media_type=None, event_time=None, idempotency_key=name)
    return WorkspaceBackend(node, listener=lambda _: None).push("readings", asked)


def not_handled(number: int, frame: object) -> None:
    raise AssertionError("nobody took the signal")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_command_gives_its_job_back_at_once(workspace: Path, number: signal.Signals) -> None:
    before = signal.signal(signal.SIGTERM, not_handled)
    # Anyone who is started in the background ignores it.
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with opened(workspace, number) as node:
            with pytest.raises(KeyboardInterrupt):
                push(node, "first")
            (job,) = node.ports.jobs.page(limit=10)
            assert (job.status, job.attempts) == (JobStatus.QUEUED, 0)
        assert signal.getsignal(signal.SIGTERM) is not_handled, "the handler is there while there is a job to give back"
    finally:
        signal.signal(signal.SIGTERM, before)
        signal.signal(signal.SIGINT, ignored)
    with opened(workspace) as node:
        push(node, "second")
        assert {one.status for one in node.ports.jobs.page(limit=10)} == {JobStatus.SUCCEEDED}


def test_who_waits_for_another_process_is_told_so(workspace: Path) -> None:
    with opened(workspace) as node:
        entry = node.datasets.resolve(parse_dataset_ref("readings"))
        first, second = (node.requests.push(PushData(dataset=entry.id, body=iter([ROW.encode()]))) for _ in range(2))
        told = [waited_for(node.jobs.get(job.id), jobs=node.ports.jobs, lease_s=30.0) for job in (first, second)]
        assert told == [{}, {}], "nobody does either"
        assert node.jobs.lease("another") is not None
        for job in (first, second):
            stage = waited_for(node.jobs.get(job.id), jobs=node.ports.jobs, lease_s=30.0)["stage"]
            assert stage == (
                "waiting (another process works on the dataset; if it was killed, this goes on within 30 s)"
            )


def test_who_interrupts_hears_what_stays(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(self: WorkspaceBackend, *refs: object, **wishes: object) -> dict[str, object]:
        raise KeyboardInterrupt

    monkeypatch.setattr(WorkspaceBackend, "pull", interrupted)
    assert main(["--workspace", str(workspace), "pull", "readings"]) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
