"""A support bundle's parts: failures are isolated, errors reveal no user data."""

from __future__ import annotations

import json
from dataclasses import replace

from odfabric.adapters.memory.node.surroundings import InlineBounded
from odfabric.domain.people.redaction import Redaction
from odfabric.errors import Determinate
from odfabric.formats.operations.support_zip import support_zip
from odfabric.model.instant import Instant
from odfabric.model.jobs.job import Job, JobKind, JobStatus
from odfabric.usecases.doctor.support_bundle import Part, gather, job_value

NOW = Instant.parse("2026-01-01T00:00:00Z")
JOB = Job(
    id="j1",
    kind=JobKind.PUSH,
    account="local",
    dataset_id=None,
    request='{"url": "https://example.org/secret"}',
    dedup_key="key-of-somebody",
    status=JobStatus.FAILED,
    progress=None,
    result='{"rows": [1]}',
    error=None,
    attempts=1,
    created_at=NOW,
    updated_at=NOW,
)


def fails() -> str:
    raise Determinate("the database failed: token=abc")


def bug() -> str:
    raise RuntimeError("hunter2")


def test_each_part_is_hidden_bounded_and_on_its_own() -> None:
    hangs = Part("hangs.json", lambda: "never")
    parts = [
        Part("long.log", lambda: "x" * 100 + "hunter2 end", is_log=True),
        Part("value.log", lambda: "value 'Ada'", is_log=True),
        Part("value.txt", lambda: "value 'Ada'"),
        Part("fails.json", fails),
        Part("bug.json", bug),
        hangs,
    ]
    found = gather(
        parts,
        redaction=Redaction(["hunter2"]),
        bounded=InlineBounded([hangs.read]),
        within_s=1.0,
        bytes_max=40,
    )
    assert found["long.log"] == b"x" * 28 + b"[hidden] end"
    assert (found["value.log"], found["value.txt"]) == ("value '…'".encode(), b"value 'Ada'")
    assert json.loads(b"{" + found["bug.json"].partition(b"{")[2]) == {"notGathered": "RuntimeError"}
    assert b"abc" not in found["fails.json"]
    assert json.loads(found["hangs.json"]) == {"notGathered": "TimeoutError"}
    assert support_zip(found) == support_zip(dict(found))


def test_errors_about_what_somebody_sent_have_their_code_alone() -> None:
    assert job_value(JOB)["error"] is None
    sent = json.dumps({"code": "invalid-data", "message": "not a number: 'Ada'", "row": 3})
    assert job_value(replace(JOB, error=sent))["error"] == {"code": "invalid-data"}
    outside = json.dumps({"code": "unavailable", "message": "the engine is away", "row": 3, "hint": "wait"})
    told = {"code": "unavailable", "message": "the engine is away", "hint": "wait"}
    assert job_value(replace(JOB, error=outside))["error"] == told
    assert job_value(replace(JOB, error="?"))["error"] == {"code": "unknown"}
    assert set(job_value(JOB)) == {
        *("id", "kind", "status", "dataset", "attempts", "createdAt", "updatedAt", "error"),
    }
