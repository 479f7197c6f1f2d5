"""What is said of a derivative whose input has another history now.

Each line of a table is a story in words and the answers after it: `why` of each record of the derivative, `odf verify` of it, and what its
state says. `readings` is the input, each push a row; `copied` reads it, `again` reads `copied`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from odfabric.domain.chain.append import link_blocks
from odfabric.errors import ChainsDiverged, Corrupt
from odfabric.formats.identifiers.dataset_layout import DATA, object_key
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import CompactRequest, PullRequest
from odfabric.model.metadata import ExecuteTransform
from odfabric.model.rewrite import RewriteKind
from odfabric.model.why_request import WhyRequest
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.heads.head_writer import stored_move
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.queries.query_data import QueryData
from odfabric.usecases.queries.query_document import QueryForm
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.manifests import DERIVED, ROOT

AGAIN = DERIVED.replace("name: copied", "name: again").replace("readings", "copied")


class Story:
    """A root and two derivatives in a row, and what can happen to them."""

    def __init__(self, folder: Path) -> None:
        self.memory = MemoryNode(folder)
        self.readings = self.memory.add(ROOT)
        self.copied = self.memory.add(DERIVED)
        self.again = self.memory.add(AGAIN)
        self.pushed = 0

    def tell(self, steps: str) -> None:
        for step in steps.split(", "):
            verb, _, rest = step.partition(" ")
            getattr(self, f"_{verb}")(*rest.split())

    def _push(self) -> None:
        self.pushed += 1
        line = json.dumps({"event_time": "2026-01-01T00:00:00Z", "city": f"c{self.pushed}"})
        job = self.memory.node.requests.push(PushData(dataset=self.readings.id, body=iter([line.encode()])))
        assert isinstance(job, Job)
        self._finished(job)

    def _derive(self, name: str = "copied") -> None:
        """`derive`, `derive again`."""
        entry: CatalogEntry = getattr(self, name)
        self._finished(self.memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias)))

    def _recompute(self, name: str = "copied") -> None:
        entry: CatalogEntry = getattr(self, name)
        request = PullRequest(dataset=entry.id, alias=entry.alias, recompute=True)
        self._finished(self.memory.node.requests.pull(request))

    def _reset(self, _to: str, rows: str, name: str = "readings") -> None:
        """`reset to 1`: to the newest block that has one row; `reset to head`."""
        entry: CatalogEntry = getattr(self, name)
        repository = self.memory.node.repository
        head = repository.head(entry.id).hash
        to = head
        if rows != "head":
            to = next(
                row.hash
                for row in repository.rows_down(entry.id)
                if repository.state(entry.id, row.hash).next_offset == int(rows)
            )
        self.memory.node.history.reset(entry, to, expected=head)

    def _compact(self) -> None:
        """What has nothing to join changes nothing."""
        self._finished(self.memory.node.history.compact(self.readings, CompactRequest(dataset=self.readings.id)))

    def _clear(self, name: str = "readings") -> None:
        entry: CatalogEntry = getattr(self, name)
        request = CompactRequest(dataset=entry.id, metadata_only=True)
        self._finished(self.memory.node.history.compact(entry, request))

    def _collect(self) -> None:
        """Objects of old histories go after two days."""
        self.memory.node.background.relay_outbox()
        self.memory.clock.advance(48 * 3_600_000)
        list(self.memory.node.objects.collect(dry_run=False))

    def _unsign(self) -> None:
        """From before there were head logs."""
        self.memory.node.ports.head_logs.replace(self.readings.id, ())

    def _finished(self, job: Job) -> dict[str, Any]:
        done = self.memory.finish(job)
        assert done.status is JobStatus.SUCCEEDED, done.error
        value: dict[str, Any] = json.loads(done.result or "{}")
        return value

    def why(self, entry: CatalogEntry) -> str:
        """Where the branch of each record ends, in order."""
        rows = self.memory.node.repository.current(entry.id)[1].next_offset
        return ", ".join(self._why(entry, offset) for offset in range(rows))

    def _why(self, entry: CatalogEntry, offset: int) -> str:
        answer: Any = self.memory.node.provenance.why(entry, WhyRequest(offsets=(offset,)))
        end = answer["records"][-1]["end"]
        query = QueryData(sql=f"select * from why('{entry.alias.name}', {offset})")
        document: Any = self.memory.node.rows.query_document(query, QueryForm())
        (in_sql,) = {(row["reason"], row["message"]) for row in document["output"]["data"] if row["reason"]}
        assert in_sql[0] == end["reason"]
        if end["reason"] != "rewritten":
            return str(end["reason"])
        assert in_sql[1] == end["message"]
        assert "--recompute` makes it again" in end["message"]
        return f"rewritten ({self._kind(end['message'])})"

    def verify(self, entry: CatalogEntry) -> str:
        report = self._finished(self.memory.node.requests.verify(entry, VerifyOptions()))
        if not report["ok"]:
            return "wrong: " + report["errors"][0]["message"]
        if not (skipped := report.get("skipped")):
            return "right"
        assert "--recompute` makes the dataset again" in skipped[0]
        return f"not replayed ({self._kind(skipped[0])})"

    def state(self, entry: CatalogEntry) -> str:
        found = self.memory.node.history.rewritten_inputs(entry)
        if not found:
            return "up to date"
        (one,) = found
        pulled = self.memory.finish(self.memory.node.requests.pull(PullRequest(dataset=entry.id, alias=entry.alias)))
        assert "--recompute" in (pulled.error or ""), "it takes nothing new"
        return self._kind(one.message) + (", same rows" if one.keeps_rows else "")

    @staticmethod
    def _kind(message: str) -> str:
        words = message.partition(" was ")[2].split()
        return words[0] if words else message


@pytest.fixture
def story(tmp_path: Path) -> Story:
    return Story(tmp_path)


@dataclass(frozen=True)
class Told:
    """What happened, and the answers for `copied`, or for `again`."""

    steps: str
    why: str
    verify: str
    state: str
    of: str = "copied"


RESETS = (
    Told("push, derive, push, reset to 1", why="root", verify="right", state="up to date"),
    Told("push, push, reset to 1, derive", why="root", verify="right", state="up to date"),
    Told("push, push, derive, reset to head", why="root, root", verify="right", state="up to date"),
    Told(
        "push, push, derive, reset to 1",
        why="rewritten (reset), rewritten (reset)",
        verify="right",
        state="reset",
    ),
    Told(
        "push, derive, push, derive, reset to 1",
        why="root, rewritten (reset)",
        verify="right",
        state="reset",
    ),
    Told(
        "push, derive, push, derive, reset to 1, push",
        why="root, rewritten (reset)",
        verify="right",
        state="reset",
    ),
    Told(
        "push, push, reset to 1, push, derive, push, reset to 2", why="root, root", verify="right", state="up to date"
    ),
    Told(
        "push, push, reset to 1, push, derive, reset to 1",
        why="rewritten (reset), rewritten (reset)",
        verify="right",
        state="reset",
    ),
    Told(
        "push, derive, push, derive, reset to 1, collect",
        why="root, rewritten (reset)",
        verify="not replayed (reset)",
        state="reset",
    ),
    Told(
        "push, push, derive, reset to 1, push, recompute",
        why="root, root",
        verify="right",
        state="up to date",
    ),
)

COMPACTIONS = (
    Told("push, derive, compact", why="root", verify="right", state="up to date"),
    Told("push, push, compact, derive", why="root, root", verify="right", state="up to date"),
    Told("push, push, derive, compact", why="root, root", verify="right", state="compacted, same rows"),
    Told(
        "push, derive, push, derive, compact",
        why="root, root",
        verify="right",
        state="compacted, same rows",
    ),
    Told(
        "push, push, compact, push, derive, push, compact",
        why="root, root, root",
        verify="right",
        state="compacted, same rows",
    ),
    Told(
        "push, push, derive, compact, push, compact",
        why="root, root",
        verify="right",
        state="compacted, same rows",
    ),
    Told(
        "push, derive, push, derive, compact, collect",
        why="rewritten (compacted), rewritten (compacted)",
        verify="not replayed (compacted)",
        state="compacted, same rows",
    ),
    Told("push, push, derive, compact, recompute", why="root, root", verify="right", state="up to date"),
)

CLEARINGS = (
    Told("push, clear, push, derive", why="root", verify="right", state="up to date"),
    Told("push, derive, clear", why="rewritten (cleared)", verify="right", state="cleared"),
    Told("push, derive, clear, push", why="rewritten (cleared)", verify="right", state="cleared"),
    Told(
        "push, derive, push, derive, clear, push, push, collect",
        why="rewritten (cleared), rewritten (cleared)",
        verify="not replayed (cleared)",
        state="cleared",
    ),
    Told("push, clear, push, derive, clear, push", why="rewritten (cleared)", verify="right", state="cleared"),
    Told("push, derive, clear, push, recompute", why="root", verify="right", state="up to date"),
)

SEVERAL = (
    # A rewrite from before the derivation takes nothing away from it.
    Told(
        "push, push, reset to 1, push, derive, compact",
        why="root, root",
        verify="right",
        state="compacted, same rows",
    ),
    Told(
        "push, clear, push, push, derive, compact",
        why="root, root",
        verify="right",
        state="compacted, same rows",
    ),
    # What a reset has left is still there after a compaction.
    Told(
        "push, push, derive, push, reset to 2, compact",
        why="root, root",
        verify="right",
        state="compacted, same rows",
    ),
    Told(
        "push, push, derive, push, derive, reset to 2, compact",
        why="root, root, rewritten (reset)",
        verify="right",
        state="reset",
    ),
    Told(
        "push, push, derive, compact, push, reset to 2",
        why="root, root",
        verify="right",
        state="compacted, same rows",
    ),
    # What was taken away does not come back with rows of the same offsets.
    Told(
        "push, push, derive, reset to 1, push, compact",
        why="rewritten (reset), rewritten (reset)",
        verify="right",
        state="reset",
    ),
    Told(
        "push, push, derive, compact, clear, push, push",
        why="rewritten (cleared), rewritten (cleared)",
        verify="right",
        state="cleared",
    ),
)

UNSIGNED = (
    # Without a head log the records beside the dataset say the same.
    Told(
        "push, push, reset to 1, push, unsign, derive, compact, unsign",
        why="root, root",
        verify="right",
        state="compacted, same rows",
    ),
    Told(
        "push, derive, push, derive, compact, unsign",
        why="root, root",
        verify="right",
        state="compacted, same rows",
    ),
    Told(
        "push, derive, push, derive, reset to 1, compact, unsign",
        why="root, rewritten (reset)",
        verify="right",
        state="reset",
    ),
)

CHAINED = (
    Told("push, push, derive, derive again, compact", "root, root", "right", "up to date", of="again"),
    Told(
        "push, derive, push, derive, derive again, reset to 1",
        "root, rewritten (reset)",
        "right",
        "up to date",
        of="again",
    ),
    Told(
        "push, push, derive, derive again, compact, recompute",
        "rewritten (cleared), rewritten (cleared)",
        "right",
        "cleared",
        of="again",
    ),
    Told(
        "push, push, derive, derive again, compact, recompute, recompute again",
        "root, root",
        "right",
        "up to date",
        of="again",
    ),
    Told(
        "push, derive, derive again, push, derive, derive again, reset to 1 copied",
        "root, rewritten (reset)",
        "right",
        "reset",
        of="again",
    ),
)

ALL = (*RESETS, *COMPACTIONS, *CLEARINGS, *SEVERAL, *UNSIGNED, *CHAINED)


@pytest.mark.parametrize("told", ALL, ids=[one.steps for one in ALL])
def test_the_answers_after(story: Story, told: Told) -> None:
    story.tell(told.steps)
    entry: CatalogEntry = getattr(story, told.of)
    assert (story.why(entry), story.verify(entry), story.state(entry)) == (told.why, told.verify, told.state)


class TestDamage:
    """What cannot be read although it should be there is damage."""

    def lose(self, story: Story, entry: CatalogEntry) -> None:
        """The newest slice of a dataset."""
        for link in story.memory.node.datasets.log(entry, limit=100):
            data = getattr(link.block.event, "new_data", None)
            if data is not None:
                story.memory.objects.delete(object_key(entry.id, DATA, data.physical_hash))
                return

    def test_of_the_derivative(self, story: Story) -> None:
        story.tell("push, push, derive, compact")
        self.lose(story, story.copied)
        with pytest.raises(Corrupt, match="missing"):
            story.why(story.copied)
        assert "wrong" in story.verify(story.copied)

    def test_of_the_compacted_input(self, story: Story) -> None:
        story.tell("push, push, derive, compact")
        self.lose(story, story.readings)
        with pytest.raises(Corrupt, match="missing"):
            story.why(story.copied)

    def test_of_a_slice_that_both_histories_name(self, story: Story) -> None:
        """A slice too large to be joined is in the compacted history as it was."""
        story.tell("push, push, push, derive")
        request = CompactRequest(dataset=story.readings.id, slice_records_max=2)
        story._finished(story.memory.node.history.compact(story.readings, request))
        self.lose(story, story.readings)
        with pytest.raises(Corrupt, match="missing"):
            story.why(story.copied)
        assert "wrong" in story.verify(story.copied)

    def test_a_block_that_says_other_records_than_it_read(self, story: Story) -> None:
        story.tell("push, push, derive, compact")
        self.forge(story, new_offset=0)
        with pytest.raises(ChainsDiverged, match="says that it has read other records"):
            story.memory.node.provenance.why(story.copied, WhyRequest(offsets=(0,)))

    def test_a_block_that_says_it_read_what_never_was(self, story: Story) -> None:
        story.tell("push, push, derive")
        self.forge(story, new_block_hash=story.memory.node.repository.head(story.copied.id).hash)
        assert story.verify(story.copied).startswith("wrong")

    def forge(self, story: Story, **said: Any) -> None:
        """A transaction that says something else of what it has read."""
        repository = story.memory.node.repository
        head = repository.head(story.copied.id)
        block = repository.blocks(story.copied.id).get(head.hash)
        event = block.event
        assert isinstance(event, ExecuteTransform)
        (read,) = event.query_inputs
        forged = replace(event, query_inputs=(replace(read, **said),))
        assert block.prev_block_hash is not None
        before = repository.state(story.copied.id, block.prev_block_hash)
        (made,) = link_blocks(before, [forged], system_time=block.system_time)
        story.memory.node.commits.replace(
            story.copied, [made], onto=block.prev_block_hash, if_match=head.hash, kind=RewriteKind.REPLACED
        )


def test_an_input_that_was_deleted_is_not_the_new_one_of_its_name(story: Story) -> None:
    story.tell("push, derive")
    node = story.memory.node
    node.commits.remove(story.readings.id)
    story.readings = story.memory.add(ROOT)
    story.tell("push")
    assert story.why(story.copied) == "not-here"
    report = story._finished(node.requests.verify(story.copied, VerifyOptions()))
    assert report["ok"]
    assert "inputs not here" in report["skipped"][0]
    pulled = story.memory.finish(node.requests.pull(PullRequest(dataset=story.copied.id, alias=story.copied.alias)))
    assert pulled.status is JobStatus.FAILED


def test_a_reset_that_was_taken_back_and_made_again_is_recorded_twice(story: Story) -> None:
    story.tell("push, push")
    repository, node = story.memory.node.repository, story.memory.node
    head = repository.head(story.readings.id).hash
    block = repository.blocks(story.readings.id).get_encoded(head)
    story.tell("reset to 1")
    node.commits.replace(
        story.readings,
        [block],
        onto=block.block.prev_block_hash,
        if_match=repository.head(story.readings.id).hash,
        kind=RewriteKind.REPLACED,
        rows_kept=1,
    )
    story.tell("derive, reset to 1")
    assert [one.kind.value for one in node.history.rewrites(story.readings)] == ["reset", "replaced", "reset"]
    assert story.state(story.copied) == "reset"
    story.tell("unsign")
    assert story.state(story.copied) == "reset"


def test_an_entry_that_covers_an_unsigned_rewrite_promises_no_rows(story: Story) -> None:
    story.tell("push, push, derive")
    logs = story.memory.node.ports.head_logs
    lines = logs.lines(story.readings.id, first=0, limit=100)
    kept = [stored_move(story.readings.id, line) for line in lines]
    story.tell("reset to 1")
    logs.replace(story.readings.id, kept)  # as if a process that knows no logs had moved the head
    story.tell("push, compact")
    newest = logs.last(story.readings.id)
    assert newest is not None
    assert "rewritten" in story.why(story.copied)
