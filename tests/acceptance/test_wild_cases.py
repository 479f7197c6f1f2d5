"""Unusual files, exports and web sources: read exactly, or refused with advice."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.acceptance.conftest import Web
from tests.support.loopback_http import Seen, reply
from tests.support.node_process import NodeProcess
from tests.support.waiting import wait_until
from tests.support.wild_cases import Answered, content_of, what_differs, wild_cases

CASES = wild_cases()
ROWS_MAX = 1000
LATER_NS = 2_000_000_000
"""What a test writes over a file is newer by so much, however coarse the clock of the disk is."""


@dataclass
class Source:
    """A page whose answers are given, the last one again and again, and a folder."""

    folder: Path
    answers: list[dict[str, Any]] = field(default_factory=list)
    asked: int = 0

    def respond(self, seen: Seen) -> bytes:
        """The next answer."""
        given = self.answers[min(self.asked, len(self.answers) - 1)]
        self.asked += 1
        body = b"" if given["status"] == 304 else content_of(given)
        return reply(given["status"], body, given.get("headers"))

    def write(self, files: dict[str, dict[str, str]]) -> None:
        """Files, over those that are there, which then are newer than they were."""
        for name, given in files.items():
            path = self.folder / name
            before = path.stat().st_mtime_ns if path.exists() else None
            path.write_bytes(content_of(given))
            if before is not None:
                os.utime(path, ns=(before + LATER_NS, before + LATER_NS))


@pytest.fixture
def source(request: pytest.FixtureRequest, web: Web, poll_folder: Path) -> Iterator[Source]:
    name = f"wild-{CASES.index(request.getfixturevalue('case'))}"
    found = Source(poll_folder / name)
    found.folder.mkdir()
    web.handlers[f"/{name}"] = found.respond
    yield found
    del web.handlers[f"/{name}"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["id"]))
def test_what_people_have_is_read_or_refused_with_a_way_out(
    case: dict[str, Any], node: NodeProcess, web: Web, source: Source
) -> None:
    name = source.folder.name
    text = json.dumps(case["manifest"], ensure_ascii=False)
    text = text.replace("@SERVER@", web.server.url(f"/{name}")).replace("@FOLDER@", str(source.folder))
    manifest = {"kind": "DatasetSnapshot", "version": 1, "content": {"name": name, **json.loads(text)}}
    created = node.post("/datasets", json.dumps(manifest, ensure_ascii=False).encode(), content_type="application/yaml")
    if case.get("at") == "create":
        assert what_differs(case["expect"], answered(created)) is None
        return
    assert created.status_code == 201, created.text
    for step in case["steps"]:
        said = pushed(node, name, step["push"]) if "push" in step else polled(node, name, step["poll"], source)
        rows = node.http.get(f"/local/{name}/state", params={"limit": ROWS_MAX}).json().get("data", [])
        found = Answered(said.taken, said.document, said.status, said.requests, rows)
        assert what_differs(step["expect"], found) is None


def answered(answer: httpx.Response) -> Answered:
    """An answer of the API."""
    return Answered(answer.is_success, answer.json(), answer.status_code)


def pushed(node: NodeProcess, name: str, push: dict[str, Any]) -> Answered:
    """What is said to a push."""
    headers = {"content-type": push["mediaType"], **push.get("headers", {})}
    if "eventTime" in push:
        headers["odf-event-time"] = push["eventTime"]
    return answered(node.http.post(f"/local/{name}/ingest", content=content_of(push), headers=headers))


def polled(node: NodeProcess, name: str, poll: dict[str, Any], source: Source) -> Answered:
    """What becomes of a pull, once its job has ended.

    A job that only tries again is cancelled after the second request.
    """
    source.write(poll.get("files", {}))
    source.answers = poll.get("answers", [])
    source.asked = 0
    answer = node.http.post(f"/local/{name}/pull", json=poll.get("options", {}))
    if answer.status_code != httpx.codes.ACCEPTED:
        return Answered(answer.is_success, answer.json(), answer.status_code, source.asked)
    path = f"/jobs/{answer.json()['job']['id']}"

    def ended() -> dict[str, Any] | None:
        job: dict[str, Any] = node.http.get(path).json()
        if job["status"] in ("succeeded", "failed", "cancelled"):
            return job
        if source.asked > len(source.answers):
            node.http.delete(path)
        return None

    job = wait_until(ended, what=f"the end of a pull of {name}") or {}
    if job["status"] == "succeeded":
        return Answered(True, job, answer.status_code, source.asked)
    problem = job.get("error") or {}
    return Answered(False, problem, problem.get("status"), source.asked)
