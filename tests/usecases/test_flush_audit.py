"""The audit goes on into a dataset: every entry once, whatever dies in between."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from odfabric.domain.people.access import Action
from odfabric.errors import AccessDenied, InvalidRequest, NotFound
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.people.account import DatasetRole, Visibility
from odfabric.model.people.audit import Actor, AuditEntry, AuditKind, AuditOutcome
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.people.accounts import create_account
from odfabric.usecases.people.flush_audit import AUDIT_ALIAS
from odfabric.usecases.people.sharing import set_role, set_visibility
from odfabric.usecases.reading.read_tail import ReadTail
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.manifests import ROOT


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


def flush(memory: MemoryNode) -> int:
    return memory.node.audit.flush(memory.finish)


def rows(memory: MemoryNode) -> list[dict[str, object]]:
    entry = memory.node.datasets.resolve(AUDIT_ALIAS)
    asked = ReadTail(skip=0, limit=1000, data_format="JsonAoS", schema_format=None)
    found = memory.node.rows.tail(entry, asked)["data"]
    assert isinstance(found, list)
    return found


def refused(memory: MemoryNode) -> AuditEntry:
    return AuditEntry(
        kind=AuditKind.SIGN_IN_REFUSED,
        actor=Actor(address="192.0.2.1"),
        at=memory.clock.now(),
        target="ann",
        outcome=AuditOutcome.REFUSED,
    )


def test_changes_are_in_the_dataset_and_their_rows_are_not_told_again(memory: MemoryNode) -> None:
    created = memory.add(ROOT)
    assert flush(memory) > 0
    assert flush(memory) == 0
    found = rows(memory)
    assert [row["kind"] for row in found] == ["account.created", "account.created", "dataset.created"]
    (last,) = [row for row in found if row["kind"] == "dataset.created"]
    assert (last["target"], last["dataset"]) == ("local/readings", str(created.id))
    assert last["account_name"] == "local"
    assert json.loads(str(last["detail"]))["newHead"] == str(memory.node.datasets.head(created).hash)


def test_the_audit_of_the_audit_does_not_go_on_for_ever(memory: MemoryNode) -> None:
    memory.add(ROOT)
    flush(memory)
    head = memory.node.datasets.head(memory.node.datasets.resolve(AUDIT_ALIAS))
    assert flush(memory) == 0
    assert memory.node.datasets.head(memory.node.datasets.resolve(AUDIT_ALIAS)) == head


def test_a_batch_that_was_committed_and_not_marked_adds_nothing(memory: MemoryNode) -> None:
    memory.add(ROOT)

    def dies(job: Job) -> Job:
        memory.finish(job)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        memory.node.audit.flush(dies)
    before = rows(memory)
    memory.add(ROOT.replace("readings", "others"))  # the next batch is a longer one
    assert flush(memory) > 0
    after = rows(memory)
    assert after[: len(before)] == before
    assert [row["target"] for row in after[len(before) :]] == ["local/others"]


def test_entries_of_a_push_that_failed_stay(memory: MemoryNode) -> None:
    memory.add(ROOT)

    def cancelled(job: Job) -> Job:
        return memory.node.jobs.cancel(job.id)

    assert memory.node.audit.flush(cancelled) == 0
    assert flush(memory) > 0
    assert len(rows(memory)) == 3


def test_refusals_are_told_once_they_are_counted_no_further(memory: MemoryNode) -> None:
    window_s = memory.settings.refusals_window_s
    for _ in range(5):
        memory.node.ports.audit.refused(refused(memory), window_s=window_s)
    flush(memory)
    assert [row["kind"] for row in rows(memory)] == ["account.created", "account.created"]
    memory.clock.advance(int(window_s * 1000) + 10_000)
    flush(memory)
    (last,) = rows(memory)[2:]
    assert (last["kind"], last["times"], last["outcome"]) == ("session.refused", 5, "refused")


def test_the_dataset_verifies(memory: MemoryNode) -> None:
    memory.add(ROOT)
    flush(memory)
    entry = memory.node.datasets.resolve(AUDIT_ALIAS)
    job = memory.finish(memory.node.requests.verify(entry, VerifyOptions()))
    assert job.status is JobStatus.SUCCEEDED
    assert json.loads(job.result or "")["ok"]


def test_nobody_alters_it_and_its_readers_are_chosen_by_admins(memory: MemoryNode) -> None:
    flush(memory)
    node, people = memory.node, memory.node.people
    entry, operator = node.datasets.resolve(AUDIT_ALIAS), memory.node.operator
    for action in (Action.PUSH, Action.WRITE, Action.DELETE):
        with pytest.raises(AccessDenied, match="nobody may"):
            node.access.require(operator, action, entry)
    auditor = create_account("auditor", display_name=None, email=None, subject=operator, ports=people)
    with pytest.raises(NotFound):
        node.access.require(node.access.subject(auditor), Action.READ, entry)
    set_role(entry, "auditor", DatasetRole.READER, subject=operator, ports=people)
    node.access.require(node.access.subject(auditor), Action.FOLLOW, entry)
    for role in (DatasetRole.CONTRIBUTOR, DatasetRole.OWNER):
        with pytest.raises(InvalidRequest):
            set_role(entry, "auditor", role, subject=operator, ports=people)
    with pytest.raises(InvalidRequest):
        set_visibility(entry, Visibility.PUBLIC, subject=operator, ports=people)
    with pytest.raises(AccessDenied):
        node.datasets.delete(entry)
