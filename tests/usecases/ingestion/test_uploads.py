"""Files without a dataset: uploaded, judged, tried, pushed.

Whose they are, how long they stay, and that a trial leaves nothing.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from odfabric.adapters.memory.sources.egress import MemoryPage
from odfabric.domain.ingestion.column_guess import GuessedType
from odfabric.domain.people.access import Subject
from odfabric.errors import AlreadyExists, InvalidRequest, LimitExceeded, NotFound
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.file_shape import FileFormat, FileShape
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.manifest import DatasetSnapshot
from odfabric.model.people.account import Visibility
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.draft_source import DraftColumn, Merge, SourceDraft, draft_source
from odfabric.usecases.ingestion.staging import STAGING_PREFIX
from odfabric.usecases.ingestion.uploads import USABLE_SHARE, Upload
from odfabric.wiring.composed.uploads import UploadVerbs
from tests.usecases.manifests import ROOT

FILE = b"id,city\n1,Ulm\n2,Bonn\nx,Kiel\n"
LEDGER = ROOT.replace("{kind: Append}", "{kind: Ledger, primaryKey: [city]}")
ROWS = b'{"event_time":"2026-01-01T00:00:00Z","city":"A","value":1}\n'


class Publisher:
    """Somebody with files."""

    def __init__(self, memory: MemoryNode) -> None:
        self.memory, self.verbs = memory, UploadVerbs(memory.node)
        self.subject: Subject = memory.node.operator

    def uploaded(self, data: bytes = FILE, name: str = "rows.csv") -> Job:
        return self.memory.finish(self.verbs.upload(iter([data]), file_name=name, by=self.subject))

    def judged(self, data: bytes = FILE, name: str = "rows.csv") -> Upload:
        return self.verbs.judged(self.uploaded(data, name), by=self.subject)

    def tried(self, upload: Upload, snapshot: DatasetSnapshot) -> dict[str, object]:
        job = self.memory.finish(self.verbs.try_new(upload, snapshot, shown={}, by=self.subject))
        assert job.status is JobStatus.SUCCEEDED, job.error
        found: dict[str, object] = json.loads(job.result or "")
        return found

    def staged(self) -> list[str]:
        return list(self.memory.objects.keys(STAGING_PREFIX))


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def publisher(memory: MemoryNode) -> Publisher:
    return Publisher(memory)


def snapshot(
    name: str = "rows", kind: GuessedType = GuessedType.STRING, merge: Merge = Merge.APPEND
) -> DatasetSnapshot:
    columns = (DraftColumn("id", kind, is_optional=False), DraftColumn("city", GuessedType.STRING, is_optional=True))
    return draft_source(
        SourceDraft(
            name=parse_dataset_alias(name),
            shape=FileShape(format=FileFormat.CSV),
            columns=columns,
            key=("id",),
            merge=merge,
        )
    )


def test_from_an_upload_to_rows(memory: MemoryNode, publisher: Publisher) -> None:
    upload = publisher.judged()
    assert upload.shape == FileShape(format=FileFormat.CSV)
    columns = upload.found["columns"]
    assert [(each["name"], each["type"]) for each in columns] == [("id", "String"), ("city", "String")]
    assert columns[0]["misfits"][0] == {"type": "Int64", "count": 1, "line": 4, "value": "x"}
    entry, push = publisher.verbs.make(upload, snapshot(), visibility=Visibility.PRIVATE, by=publisher.subject)
    done = memory.finish(push)
    assert done.status is JobStatus.SUCCEEDED, done.error
    assert json.loads(done.result or "")["rows"] == 3
    assert memory.node.datasets.head(entry).sequence_number > 1
    assert publisher.staged() == []


def test_a_trial_tells_and_leaves_nothing(memory: MemoryNode, publisher: Publisher) -> None:
    upload = publisher.judged()
    objects = list(memory.objects.keys(""))
    found = publisher.tried(upload, snapshot())
    assert (found["rows"], found["operations"]) == (3, {"0": 3})
    refused = publisher.tried(upload, snapshot(kind=GuessedType.INT64))
    assert refused["refused"] == [{"line": 4, "column": "id", "wanted": "WHOLE", "value": "x"}]
    assert refused["problem"]["line"] == 4  # type: ignore[index]
    assert list(memory.objects.keys("")) == objects
    assert list((memory.folder / "exchange").iterdir()) == []
    assert memory.node.datasets.page(after=None, limit=10) == []


def test_what_the_engine_alone_knows_is_told_too(publisher: Publisher) -> None:
    found = publisher.tried(publisher.judged(), snapshot(merge=Merge.SNAPSHOT))
    assert (found["refused"], found["refusedCount"], found["rows"]) == ([], 0, 3)
    assert "does not merge" in found["problem"]["message"]  # type: ignore[index]


def test_a_trial_of_a_push_counts_what_is_new(memory: MemoryNode, publisher: Publisher) -> None:
    entry = memory.add(LEDGER)

    def tried(rows: bytes) -> Job:
        asked = publisher.verbs.try_push(
            entry, iter([rows]), file_name="a", source_name=None, media_type=None, by=publisher.subject
        )
        return memory.finish(asked)

    first = tried(ROWS)
    assert json.loads(first.result or "")["operations"] == {"0": 1}
    head = memory.node.datasets.head(entry)
    assert memory.finish(publisher.verbs.push_tried(entry, first, by=publisher.subject)).status is JobStatus.SUCCEEDED
    assert memory.node.datasets.head(entry) != head
    second = tried(ROWS + ROWS.replace(b'"A"', b'"B"'))
    assert (json.loads(second.result or "")["rows"], json.loads(second.result or "")["operations"]) == (2, {"0": 1})
    with pytest.raises(NotFound):
        publisher.verbs.push_tried(memory.add(ROOT.replace("readings", "other")), second, by=publisher.subject)


def test_a_file_of_the_web_is_fetched_as_sources_are(memory: MemoryNode, publisher: Publisher) -> None:
    memory.http.pages["https://a.example/rows.csv"] = MemoryPage(body=FILE)
    job = memory.finish(publisher.verbs.fetch("https://a.example/rows.csv", by=publisher.subject))
    upload = publisher.verbs.judged(job, by=publisher.subject)
    assert (upload.url, upload.file_name, upload.found["rows"]) == ("https://a.example/rows.csv", "rows.csv", 3)
    again = publisher.verbs.judge_again(job, replace(upload.shape, header=False), by=publisher.subject)
    assert publisher.verbs.judged(memory.finish(again), by=publisher.subject).found["rows"] == 4
    missing = memory.finish(publisher.verbs.fetch("https://a.example/other.csv", by=publisher.subject))
    assert missing.status is JobStatus.FAILED
    for wrong in ("file:///etc/passwd", "ftp://a.example", "https://a.example/ b"):
        with pytest.raises(InvalidRequest):
            publisher.verbs.fetch(wrong, by=publisher.subject)


def test_of_an_account_the_last_files_are_kept(memory: MemoryNode) -> None:
    memory.use_database(memory.store, uploads_per_account_max=2)
    publisher = Publisher(memory)
    jobs = [publisher.uploaded() for _ in range(3)]
    assert len(publisher.staged()) == 2
    with pytest.raises(NotFound):
        publisher.verbs.judged(jobs[0], by=publisher.subject)
    assert publisher.verbs.judged(jobs[2], by=publisher.subject).size == len(FILE)


def test_files_that_jobs_need_are_never_removed(memory: MemoryNode) -> None:
    memory.use_database(memory.store, uploads_per_account_max=1)
    publisher = Publisher(memory)
    waiting = publisher.verbs.upload(iter([FILE]), file_name="a.csv", by=publisher.subject)
    with pytest.raises(LimitExceeded):
        publisher.uploaded()
    memory.clock.advance(int(memory.settings.staged_lifetime_s * 1000) + 1)
    memory.node.background.remove_leftovers()
    assert memory.finish(waiting).status is JobStatus.SUCCEEDED


def test_an_old_file_is_not_used_and_then_collected(memory: MemoryNode, publisher: Publisher) -> None:
    job, now = publisher.uploaded(), memory.clock.now()
    memory.clock.set(
        replace(now, epoch_ns=now.epoch_ns + int(memory.settings.staged_lifetime_s * USABLE_SHARE * 1e9) + 1)
    )
    with pytest.raises(NotFound):
        publisher.verbs.judged(job, by=publisher.subject)
    assert len(publisher.staged()) == 1
    memory.clock.set(replace(now, epoch_ns=now.epoch_ns + int((memory.settings.staged_lifetime_s + 1) * 1e9)))
    memory.node.background.remove_leftovers()
    assert publisher.staged() == []


def test_a_dataset_that_cannot_be_is_refused_before_its_trial(memory: MemoryNode, publisher: Publisher) -> None:
    memory.add(ROOT)
    upload = publisher.judged()
    with pytest.raises(AlreadyExists):
        publisher.verbs.try_new(upload, snapshot("readings"), shown={}, by=publisher.subject)
    columns = (DraftColumn("x" * 2000, GuessedType.INT64, is_optional=True),)
    unfit = draft_source(
        SourceDraft(name=parse_dataset_alias("a"), shape=FileShape(format=FileFormat.CSV), columns=columns)
    )
    with pytest.raises(LimitExceeded):
        publisher.verbs.try_new(upload, unfit, shown={}, by=publisher.subject)
