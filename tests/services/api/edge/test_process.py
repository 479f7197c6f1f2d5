"""The api as a process of its own, on a real workspace."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from odfabric.settings import Settings
from odfabric.wiring import prepare_workspace
from tests.services.api.serving import ANSWER_S_MAX
from tests.support.waiting import wait_until
from tests.usecases.manifests import ROOT

START_S_MAX = 60.0
"""For a process that takes two seconds of a processor to start, on a machine that does much else."""

ROWS = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


@contextmanager
def api(workspace: Path, *arguments: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    ready, log = workspace / "api.ready", workspace / "api.log"
    command = [sys.executable, "-P", "-m", "odfabric_api", "--port", "0", "--ready-file", str(ready), *arguments]
    environment = {**os.environ, "ODF_WORKSPACE": str(workspace)}
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env=environment)
    try:
        yield process, ready
    finally:
        process.kill()
        process.wait(ANSWER_S_MAX)


def test_a_process_serves_until_it_is_told_to_end(tmp_path: Path) -> None:
    token = prepare_workspace(Settings(workspace=tmp_path))
    with api(tmp_path) as (process, ready):
        wait_until(ready.exists, deadline_s=START_S_MAX, what="the ready file")
        told = json.loads(ready.read_text())
        assert told["pid"] == process.pid
        headers = {"authorization": f"Bearer {token}"}
        with httpx.Client(base_url=told["url"], headers=headers, timeout=ANSWER_S_MAX, trust_env=False) as client:
            assert client.get("/system/health").json()["ok"] is True
            assert client.post("/datasets", content=ROOT).status_code == 201
            # No worker is there: the push is durable, and nobody waits when the service ends.
            answer = client.post("/local/readings/ingest", content=ROWS, headers={"prefer": "respond-async"})
            assert answer.status_code == 202
            assert client.get("/datasets", headers={"authorization": "Bearer odf_wrong"}).status_code == 401
        process.send_signal(signal.SIGTERM)
        assert process.wait(ANSWER_S_MAX) in (0, -signal.SIGTERM)
    text = (tmp_path / "api.log").read_text()
    assert "ERROR" not in text
    assert "Traceback" not in text
    assert token not in text
    assert stat.S_IMODE((tmp_path / "node.token").stat().st_mode) == 0o600


def test_a_process_ends_with_its_owner(tmp_path: Path) -> None:
    prepare_workspace(Settings(workspace=tmp_path))
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with api(tmp_path, "--owner-pid", str(owner.pid)) as (process, ready):
            wait_until(ready.exists, deadline_s=START_S_MAX, what="the ready file")
            owner.kill()
            owner.wait(ANSWER_S_MAX)
            assert process.wait(ANSWER_S_MAX) == 0
    finally:
        owner.kill()
        owner.communicate()


def test_a_process_that_cannot_begin_says_why(tmp_path: Path) -> None:
    prepare_workspace(Settings(workspace=tmp_path))
    environment = {**os.environ, "ODF_WORKSPACE": str(tmp_path), "ODF_TOKEN": "not a token"}
    command = [sys.executable, "-P", "-m", "odfabric_api", "--port", "0"]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=START_S_MAX, check=False)
    assert ended.returncode == 1
    assert "not a bearer token" in ended.stderr
    assert "Traceback" not in ended.stderr
