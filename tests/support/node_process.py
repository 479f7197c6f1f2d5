"""A test node of real processes: `odf up`, the command line, deadlines."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.support.engines.quick_jvm import QUICK_JVM
from tests.support.process_tree import Seen, descendants, marked
from tests.support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
ODF = ROOT / "odf"

START_S_MAX = 150.0
"""A cold engine on a machine that is busy with other tests."""
COMMAND_S_MAX = 150.0
JOB_S_MAX = 150.0
PUSH_S_MAX = 100.0
"""How long the node keeps a push waiting: longer than usual, so that a busy machine does not turn 200 into 202."""
END_S_MAX = 15.0
ENGINE_MEMORY_MIB = 1024

_OURS = "ODF_"


def clean_environment(**changes: str) -> dict[str, str]:
    """This process's environment without settings of its own, with the given ones."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    ours = {
        "ODF_ENGINE_MEMORY_MIB": str(ENGINE_MEMORY_MIB),
        "ODF_ENGINE_JVM_OPTIONS": QUICK_JVM,
        "ODF_PUSH_WAIT_S_MAX": str(PUSH_S_MAX),
        # A test that is about something else does not meet the audit's dataset halfway.
        "ODF_AUDIT_FLUSH_S": "3600",
        # Logins of the one who runs the tests are none of theirs.
        "ODF_CREDENTIALS": "/nonexistent/credentials.json",
    }
    return {**kept, **ours, **changes}


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one document on standard output."""
        return json.loads(self.out)


@dataclass(frozen=True)
class Odf:
    """The command line with the same options and environment in every call."""

    options: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: Path | None = None

    def run(self, *arguments: str, stdin: bytes = b"") -> Ran:
        """Run a command to its end, whatever it is."""
        ended = subprocess.run(
            [str(ODF), *self.options, *arguments],
            input=stdin,
            capture_output=True,
            timeout=COMMAND_S_MAX,
            env=clean_environment(**self.environment),
            cwd=self.folder,
            check=False,
        )
        return Ran(ended.returncode, ended.stdout.decode(), ended.stderr.decode())

    def json(self, *arguments: str, stdin: bytes = b"") -> Any:
        """What a command that must succeed says with `-o json`."""
        ran = self.run("-o", "json", *arguments, stdin=stdin)
        assert ran.code == 0, f"{arguments}: {ran.err}{ran.out}"
        return ran.json

    def refused(self, *arguments: str, stdin: bytes = b"") -> dict[str, Any]:
        """The problem document of a command that must be refused with exit code 1.

        Its detail is on standard error.
        """
        ran = self.run("-o", "json", *arguments, stdin=stdin)
        assert ran.code == 1, f"{arguments}: exit {ran.code}: {ran.err}{ran.out}"
        problem: dict[str, Any] = ran.json["error"]
        assert ran.err.startswith("odf: ")
        assert problem["message"] in ran.err
        return problem


@dataclass
class NodeProcess:
    """A running `odf up`."""

    process: subprocess.Popen[bytes]
    workspace: Path
    url: str
    token: str
    engine: str
    http: httpx.Client
    log: Path
    console: str

    def post(self, path: str, content: bytes | str = b"", **headers: str) -> httpx.Response:
        """POST; names of headers with underscores for hyphens."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(path, content=content, headers=named)

    def create(self, manifest: str) -> dict[str, Any]:
        """Create the dataset of a manifest."""
        answer = self.post("/datasets", manifest, content_type="application/yaml")
        assert answer.status_code == 201, answer.text
        created: dict[str, Any] = answer.json()
        return created

    def push(self, name: str, rows: Sequence[Mapping[str, object]], **headers: str) -> dict[str, Any]:
        """Push rows as NDJSON and wait for the commit, over a restart if need be."""
        return self.finished(self.post(f"/local/{name}/ingest", ndjson(rows), content_type=NDJSON, **headers))

    def pull(self, name: str, **wishes: object) -> dict[str, Any]:
        """Pull and wait."""
        return self.finished(self.http.post(f"/local/{name}/pull", json=wishes))

    def verify(self, name: str) -> dict[str, Any]:
        """Verify with replay and wait."""
        return self.finished(self.http.post(f"/local/{name}/verify", json={"replay": True}))

    def tail(self, name: str, limit: int = 1000) -> list[dict[str, Any]]:
        """The last rows."""
        answer = self.http.get(f"/local/{name}/tail", params={"limit": limit})
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, Any]] = answer.json()["data"]
        return rows

    def head(self, name: str) -> str:
        """The head block."""
        answer = self.http.get(f"/local/{name}/refs/head")
        assert answer.status_code == 200, answer.text
        return answer.text

    def finished(self, answer: httpx.Response) -> dict[str, Any]:
        """The answer, or the result of the job that it names, which must succeed."""
        if answer.status_code == 202:
            job = self.ended(answer.json()["job"]["id"])
            assert job["status"] == "succeeded", job
            result: dict[str, Any] = job["result"]
            return result
        assert answer.status_code == 200, answer.text
        value: dict[str, Any] = answer.json()
        return value

    def ended(self, job_id: str) -> dict[str, Any]:
        """The job once it has ended; the api may be away for a while."""

        def look() -> dict[str, Any] | None:
            try:
                answer = self.http.get(f"/jobs/{job_id}")
            except httpx.TransportError:
                return None
            assert answer.status_code == 200, answer.text
            job: dict[str, Any] = answer.json()
            return job if job["status"] in ("succeeded", "failed", "cancelled") else None

        return wait_until(look, deadline_s=JOB_S_MAX, what=f"the end of job {job_id}") or {}

    def processes(self) -> set[Seen]:
        """Everything below `odf up` now, and whatever else works in its workspace."""
        return {seen for seen in descendants(self.process.pid) | marked(str(self.workspace)) if seen.pid != os.getpid()}

    def one(self, module: str) -> int:
        """Process id of a part: odfabric_api, odfabric_worker, odfabric_engine_spark."""
        found = [seen.pid for seen in self.processes() if seen.command.endswith(f" -m {module}")]
        assert len(found) == 1, (module, found)
        return found[0]

    def end(self, sign: signal.Signals = signal.SIGINT) -> int:
        """Ask it to end; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(sign)
        return self.process.wait(END_S_MAX * 2)


@contextmanager
def node_process(workspace: Path, *options: str, **environment: str) -> Iterator[NodeProcess]:
    """`odf up` on a free port, ready; it is ended with the context."""
    ready = workspace.with_name(f"{workspace.name}.ready")
    ready.unlink(missing_ok=True)
    log = workspace.with_name(f"{workspace.name}.up.log")
    command = [str(ODF), "--workspace", str(workspace), "up", "--port", "0", "--ready-file", str(ready), *options]
    with log.open("ab") as out:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=clean_environment(**environment)
        )
    try:
        wait_until(lambda: ready.exists() or process.poll() is not None, deadline_s=START_S_MAX, what="`odf up`")
        assert process.poll() is None, log.read_text()
        told = json.loads(ready.read_text())
        assert told["pid"] == process.pid
        headers = {"authorization": f"Bearer {told['token']}"}
        with httpx.Client(base_url=told["url"], headers=headers, timeout=PUSH_S_MAX + 20, trust_env=False) as http:
            yield NodeProcess(
                process, workspace, told["url"], told["token"], told["engine"], http, log, told["console"]
            )
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(END_S_MAX * 2)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


NDJSON = "application/x-ndjson"


def ndjson(rows: Sequence[Mapping[str, object]]) -> bytes:
    """Rows as lines."""
    return "".join(json.dumps(row) + "\n" for row in rows).encode()
