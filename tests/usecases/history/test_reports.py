"""Signed verification reports: made, checked offline, published beside a dataset."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from odfabric.errors import InvalidData, InvalidRequest, LimitExceeded, NotFound
from odfabric.formats.operations.verification_report import read_signed_report, report_text, signed_report
from odfabric.model.commit import CatalogEntry
from odfabric.model.jobs.job import JobStatus
from odfabric.model.jobs.requests import PullRequest
from odfabric.testing.memory_node import MemoryNode
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.usecases.verification.verification_run import VerifyOptions
from tests.usecases.manifests import DERIVED, ROOT


@pytest.fixture
def memory(tmp_path: Path) -> MemoryNode:
    return MemoryNode(tmp_path)


@pytest.fixture
def entry(memory: MemoryNode) -> CatalogEntry:
    return memory.add(ROOT)


@pytest.fixture
def derived(memory: MemoryNode, entry: CatalogEntry) -> CatalogEntry:
    made = memory.add(DERIVED)
    for day in (1, 2, 3, 4):
        line = json.dumps({"event_time": f"2026-01-0{day}T00:00:00Z", "city": "Ulm", "value": day}).encode()
        memory.finish(memory.node.requests.push(PushData(dataset=entry.id, body=iter([line]))))
        memory.finish(memory.node.requests.pull(PullRequest(dataset=made.id, alias=made.alias)))
    return made


def verify(memory: MemoryNode, entry: CatalogEntry, **options: Any) -> dict[str, Any]:
    job = memory.finish(memory.node.requests.verify(entry, VerifyOptions(report=True, **options)))
    assert job.status is JobStatus.SUCCEEDED, job.error
    result: dict[str, Any] = json.loads(job.result or "{}")
    return result


def test_a_report_says_what_was_checked_and_who_signed(memory: MemoryNode, derived: CatalogEntry) -> None:
    document = verify(memory, derived)["report"]
    head = str(memory.node.repository.head(derived.id).hash)
    read = read_signed_report(report_text(document).encode())
    (key,) = memory.node.webhooks.signature.published()
    assert read.signer == document["proof"]["verificationMethod"]
    assert read.signer.startswith("did:key:z")
    assert (read.dataset, str(read.block), read.ok) == (derived.id, head, True)
    members = read.members
    assert (members["mode"], members["blocks"], members["transactions"]) == ("recompute", 7, 4)
    assert members["engine"]["digest"] == memory.node.ports.engine.info().digest
    assert key.public


def test_a_changed_report_is_refused_by_its_signature(memory: MemoryNode, derived: CatalogEntry) -> None:
    document = verify(memory, derived)["report"]
    for member, value in (("ok", False), ("blocks", 8), ("mode", "metadata")):
        changed = {**document, "report": {**document["report"], member: value}}
        with pytest.raises(InvalidData, match="does not fit the report") as refused:
            read_signed_report(report_text(changed).encode(), file="r.json")
        assert (refused.value.place.file, refused.value.place.rule) == ("r.json", "signature")
    for data, message in (
        (b"[]", "no verification report"),
        (b"{}", "no verification report"),
        (b"x" * 70_000, "bytes"),
    ):
        with pytest.raises(InvalidData, match=message):
            read_signed_report(data)


def test_a_range_checks_its_blocks_alone(memory: MemoryNode, derived: CatalogEntry) -> None:
    rows = list(memory.node.repository.rows_down(derived.id))[::-1]
    found = verify(memory, derived, after=rows[3].hash, until=rows[5].hash)
    assert found["ok"]
    members = found["report"]["report"]
    assert (members["transactions"], members["blocks"], members["checkedTo"]) == (2, 6, str(rows[5].hash))
    for options, mode, objects in (({"data": False, "replay": False}, "metadata", 0), ({"replay": False}, "data", 8)):
        members = verify(memory, derived, **options)["report"]["report"]
        assert (members["mode"], members["objects"] > 0, members["transactions"]) == (mode, objects > 0, 0)


def test_a_block_outside_the_range_is_refused(memory: MemoryNode, derived: CatalogEntry) -> None:
    rows = list(memory.node.repository.rows_down(derived.id))[::-1]
    wrong = VerifyOptions(after=rows[5].hash, until=rows[3].hash)
    job = memory.finish(memory.node.requests.verify(derived, wrong))
    assert job.status is JobStatus.FAILED
    assert "is not below the last block" in (job.error or "")


def test_each_signer_has_one_report_beside_a_dataset(memory: MemoryNode, derived: CatalogEntry) -> None:
    reports = memory.node.reports
    first = verify(memory, derived)["report"]
    published = reports.publish(derived, report_text(first).encode())
    assert (published.published_by, published.in_chain) == ("local", True)
    second = verify(memory, derived, replay=False)["report"]
    reports.publish(derived, report_text(second).encode())
    assert [one.report.members["mode"] for one in reports.of_dataset(derived)] == ["data"]
    for number in range(2, 101):
        other = signed_report(
            {k: v for k, v in first["report"].items() if k not in ("kind", "version")}, private=bytes([number]) * 32
        )
        reports.publish(derived, report_text(other).encode())
    assert len(reports.of_dataset(derived)) == 100
    late = signed_report(
        {k: v for k, v in first["report"].items() if k not in ("kind", "version")}, private=bytes([200]) * 32
    )
    with pytest.raises(LimitExceeded):
        reports.publish(derived, report_text(late).encode())
    reports.remove(derived, reports.of_dataset(derived)[0].id)
    reports.publish(derived, report_text(late).encode())
    with pytest.raises(NotFound):
        reports.remove(derived, "0" * 64)


def test_a_report_of_another_dataset_or_chain_is_refused(
    memory: MemoryNode, entry: CatalogEntry, derived: CatalogEntry
) -> None:
    text = report_text(verify(memory, derived)["report"]).encode()
    with pytest.raises(InvalidRequest, match="is about"):
        memory.node.reports.publish(entry, text)
    memory.node.reports.publish(derived, text)
    memory.node.history.reset(derived, 2, expected=memory.node.repository.head(derived.id).hash)
    (kept,) = memory.node.reports.of_dataset(derived)
    assert not kept.in_chain
    with pytest.raises(InvalidRequest, match="not in the chain"):
        memory.node.reports.publish(derived, text)


def test_a_report_with_other_members_or_proof_is_refused(memory: MemoryNode, derived: CatalogEntry) -> None:
    document = verify(memory, derived)["report"]
    report, proof = document["report"], document["proof"]
    other = signed_report({"dataset": report["dataset"]}, private=bytes([9]) * 32)["proof"]
    without = {name: value for name, value in report.items() if name != "blocks"}
    for changed in (
        {**document, "report": {**report, "vouchedBy": "everybody"}},
        {**document, "report": without},
        {**document, "extra": 1},
        {**document, "proof": {**proof, "extra": 1}},
        {**document, "proof": {**proof, "verificationMethod": other["verificationMethod"]}},
        {**document, "proof": {**proof, "proofValue": other["proofValue"]}},
        {**document, "proof": {**proof, "proofValue": proof["proofValue"][:9] + "!" + proof["proofValue"][9:]}},
        {**document, "proof": other},
        {**document, "proof": None},
        {**document, "report": None},
        {"report": report},
    ):
        with pytest.raises(InvalidData):
            read_signed_report(report_text(changed).encode())
        with pytest.raises(InvalidData):
            memory.node.reports.publish(derived, report_text(changed).encode())
    assert memory.node.reports.of_dataset(derived) == []


def test_a_signed_report_is_no_deeper_than_eight_levels(memory: MemoryNode, derived: CatalogEntry) -> None:
    """Its signature is right: it is the depth alone that is refused."""
    report = verify(memory, derived)["report"]["report"]

    def signed(levels: int) -> bytes:
        deep: object = "x"
        for _ in range(levels):
            deep = [deep]
        return report_text(signed_report({**report, "skipped": deep}, private=bytes([9]) * 32)).encode()

    assert read_signed_report(signed(4)).ok
    with pytest.raises(InvalidData, match="no verification report"):
        read_signed_report(signed(12))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"1",
        b"NaN",
        b'"report"',
        b"[" * 30_000,
        b'{"report":' * 5_000,
        b'{"report":{},"report":{},"proof":{}}',
        b'{"proof":{},"report":' + b"9" * 60_000 + b"}",
        b"\xff\xfe{}",
        b'{"report": "' + b"x" * 100_000 + b'"}',
    ],
    ids=["empty", "null", "number", "nan", "text", "deep list", "deep", "twice", "long number", "no UTF-8", "huge"],
)
def test_what_is_no_report_is_refused(memory: MemoryNode, entry: CatalogEntry, data: bytes) -> None:
    with pytest.raises(InvalidData):
        memory.node.reports.publish(entry, data)
