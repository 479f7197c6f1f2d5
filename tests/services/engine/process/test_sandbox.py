"""The real engine's sandbox, tried from inside by a program and by passed SQL."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import odfabric
from odfabric_engine_spark.process.sandbox import landlock
from odfabric_engine_spark.process.sandbox.enter import EXIT_NO_WALL
from odfabric_engine_spark.process.sandbox.file_view import view_of
from odfabric_engine_spark.process.sandbox.keeper import plan_behind, run_behind
from odfabric_engine_spark.process.sandbox.walls import NAMESPACES, RESTRICTIONS, Layer
from tests.services.engine.engine_process import EngineUnderTest, gone
from tests.support.waiting import wait_until

pytestmark = pytest.mark.spark

HERE = Path(__file__).parent
KNOWN_TO_THE_ENGINE = {
    *("PATH", "HOME", "LANG", "LC_CTYPE", "TZ", "TMPDIR", "JAVA_HOME"),
    *("PYTHONPATH", "PYTHONDONTWRITEBYTECODE", "LD_LIBRARY_PATH"),
}
OPEN_WITHOUT_NAMESPACES = {
    "connect to a port of the host",
    "connect to the world",
    "connect to the world over IPv6",
    "send to the world",
    "resolve a name",
    "connect to a socket of the workspace",
    "see a process",
    "become root",
}
"""What Landlock and seccomp alone do not stop; the engine says in its log that it may reach the network."""


@dataclass(frozen=True)
class Outside:
    """What must stay out of reach: workspace, neighbour, listening port, process.

    The workspace around the exchange folder, this process.
    """

    workspace: Path
    neighbour: Path
    port: int
    socket: Path
    abstract: str

    @property
    def exchange(self) -> Path:
        return self.workspace / "exchange"

    def places(self) -> dict[str, Any]:
        paths = {
            "database": str(self.workspace / "database.sqlite"),
            "workspace": str(self.workspace),
            "cache": str(self.workspace / "engine-cache/classes.jsa"),
            "socket": str(self.socket),
            "abstract": self.abstract,
            "neighbour": str(self.neighbour / "slice"),
            "home": os.path.expanduser("~"),
            "temporary": tempfile.gettempdir(),
            "code": str(odfabric.__file__),
        }
        return {"paths": paths, "numbers": {"port": self.port, "pid": os.getpid()}}

    def run(self, program: str, layers: frozenset[Layer], folder: Path) -> tuple[int, str]:
        """Run a program of the tests behind walls; its exit code and what was said."""
        shutil.copy(HERE / program, self.exchange)
        folder.mkdir()
        plan = plan_behind(
            layers,
            exchange=self.exchange.resolve(),
            cache=(self.workspace / "engine-cache").resolve(),
            folder=folder.resolve(),
            command=(sys.executable, "-P", program),
        )
        with (folder / "log").open("w+") as log:
            behind = run_behind(plan, folder, errors=log)
            behind.communicate(timeout=120)
            log.seek(0)
            return behind.returncode, log.read()


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Outside]:
    workspace, neighbour = tmp_path / "workspace", tmp_path / "neighbour"
    for folder in (workspace / "exchange", workspace / "engine-cache", neighbour):
        folder.mkdir(parents=True)
    for secret in (workspace / "database.sqlite", workspace / "engine-cache/classes.jsa", neighbour / "slice"):
        secret.write_text("secret")
    with ExitStack() as closing:
        server = closing.enter_context(socket.create_server(("127.0.0.1", 0)))
        abstract = f"odf-test-{os.getpid()}-{tmp_path.name}"
        local = Path(closing.enter_context(tempfile.TemporaryDirectory())) / "socket"
        for address in (f"\0{abstract}", str(local)):
            listening = closing.enter_context(socket.socket(socket.AF_UNIX))
            listening.bind(address)
            listening.listen()
        found = Outside(workspace, neighbour, server.getsockname()[1], local, abstract)
        (found.exchange / "places.json").write_text(json.dumps(found.places()))
        yield found


WITHOUT_NAMESPACES_IS_MEANT = os.environ.get("ODF_TEST_WITHOUT_NAMESPACES") == "1"
"""Anyone who runs the tests knows that this machine has none. Without that word a machine which lost them fails, and is not passed over."""


def has_namespaces() -> bool:
    """Whether this machine gives user namespaces, by somebody else's program."""
    return subprocess.run(["unshare", "-Urn", "true"], capture_output=True, check=False).returncode == 0


def restrictions() -> frozenset[Layer]:
    return RESTRICTIONS if landlock.version() else RESTRICTIONS - {Layer.LANDLOCK}


def best_layers() -> frozenset[Layer]:
    """Layers that must hold here: all, or without namespaces the others.

    On a machine without namespaces that was named as such.
    """
    if has_namespaces():
        return NAMESPACES | restrictions()
    assert WITHOUT_NAMESPACES_IS_MEANT, (
        "this machine refuses namespaces, so most walls cannot be tested: let it have them (`unshare -Urn true` must work),"
        " or say ODF_TEST_WITHOUT_NAMESPACES=1 to test the walls that are left"
    )
    return restrictions()


NAMESPACES_ALONE = NAMESPACES | {Layer.NO_NEW_PRIVILEGES}
OPEN_WITHOUT_THE_OTHERS = {
    "change its root",
    *(
        "use sockets of the host machine",
        "use ciphers of the kernel",
        "use rings of calls",
        "enter a new user namespace",
    ),
    *("list the root", "list a home", "list the workspace", "list the system's temporary folder"),
    *("leave a link", "leave a pipe", "run what it wrote privately"),
    *("trace its parent", "read the memory of its parent"),
}
"""What namespaces alone do not stop; the folders that can be listed are empty but for what is shown."""


@pytest.mark.parametrize(
    "layers",
    [NAMESPACES | restrictions(), restrictions(), NAMESPACES_ALONE],
    ids=["sealed", "without namespaces", "namespaces alone"],
)
def test_nothing_outside_can_be_reached(outside: Outside, tmp_path: Path, layers: frozenset[Layer]) -> None:
    code, said = outside.run("sandbox_probe.py", layers, tmp_path / "private")
    if layers & NAMESPACES and not best_layers() & NAMESPACES:
        # A machine that was named as one without: nothing runs at all, and the case without them shows the strongest there is.
        assert code == EXIT_NO_WALL
        assert "cannot be put up" in said
        assert not (outside.exchange / "tried.json").exists()
        return
    assert code == 0, said
    found = json.loads((outside.exchange / "tried.json").read_text())
    if layers == NAMESPACES_ALONE:
        open_ways = OPEN_WITHOUT_THE_OTHERS
    else:
        assert layers >= RESTRICTIONS, "every kernel that is not very old has them"
        open_ways = set() if layers & NAMESPACES else OPEN_WITHOUT_NAMESPACES
    succeeded = {name for name, failure in found["tried"].items() if failure is None}
    allowed = {name for name in found["tried"] if name.startswith("may ")}
    assert len(allowed) == 4
    assert allowed <= succeeded
    assert succeeded - allowed <= open_ways
    assert set(found["environment"]) <= KNOWN_TO_THE_ENGINE
    assert set(found["open"]) <= {"0", "1", "2", "3"}, "3 is the listing itself"
    assert [int(value, 16) for value in found["capabilities"]] == [0, 0, 0, 0]
    assert found["cores"] == [0, 0]
    if layers & NAMESPACES:
        assert found["processes"] == ["1", "2"]
    assert (outside.workspace / "engine-cache/classes.jsa").read_text() == "secret"


def queries(outside: Outside) -> dict[str, str]:
    """SQL that a gate would refuse; what begins with `may ` must work."""
    database = outside.workspace / "database.sqlite"
    return {
        "may run": "SELECT 1 AS one",
        "may run a shell": "SELECT TRANSFORM (1) USING 'cat' AS (x STRING)",
        "read the database": f"SELECT * FROM text.`{database}`",
        "read the passwords": "SELECT * FROM text.`/etc/shadow`",
        "read a home": f"SELECT * FROM binaryFile.`{os.path.expanduser('~')}`",
        "read a neighbour": f"SELECT * FROM text.`{outside.neighbour}/slice`",
        "read by a shell": f"SELECT TRANSFORM (1) USING 'cat {database}' AS (x STRING)",
        "call the host": f"SELECT TRANSFORM (1) USING 'exec 3<>/dev/tcp/127.0.0.1/{outside.port}' AS (x STRING)",
        "may read harmless settings": "SELECT java_method('java.lang.System', 'getenv', 'LANG') AS it",
        "write out": f"INSERT OVERWRITE DIRECTORY '{outside.workspace}/stolen' USING text SELECT 'x'",
        "read settings": "SELECT java_method('java.lang.System', 'getenv', 'ODF_SECRET') AS it",
    }


def test_sql_without_a_gate_reaches_nothing(outside: Outside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ODF_SECRET", "secret")
    asked = queries(outside)
    (outside.exchange / "queries.json").write_text(json.dumps(asked))
    layers = best_layers()
    code, said = outside.run("sandbox_queries.py", layers, tmp_path / "private")
    assert code == 0, said
    answers = json.loads((outside.exchange / "answers.json").read_text())
    assert set(answers) == set(asked)
    assert answers["may run"] == "[Row(one=1)]"
    assert answers["may run a shell"] == "[Row(x='1')]", "the holes are there: what stops the others is the sandbox"
    assert "secret" not in json.dumps(answers)
    assert not (outside.workspace / "stolen").exists()
    answered = {name for name, answer in answers.items() if answer is not None and not name.startswith("may ")}
    assert answered == {"read settings"} | (set() if layers & NAMESPACES else {"call the host"})
    assert "None" in answers["read settings"] or "null" in answers["read settings"]


def test_duckdb_is_the_second_reader_of_parquet_in_the_sandbox(outside: Outside, tmp_path: Path) -> None:
    code, said = outside.run("sandbox_parquet.py", best_layers(), tmp_path / "private")
    assert code == 0, said
    readings = json.loads((outside.exchange / "readings.json").read_text())
    assert readings["plain"] is None, "DuckDB does not run in there, and every push would ask Spark"
    assert readings["names by case"] is not None, "asking Spark shows"


def seen_from_outside(pid: int) -> dict[str, object]:
    """What the kernel says of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    mine, its = (os.stat(f"/proc/{who}/ns/net").st_ino for who in ("self", pid))
    return {"network": mine != its, "seccomp": status["Seccomp"] == "2", "privileges": status["NoNewPrivs"] == "1"}


def test_the_engine_says_which_walls_stand_and_they_do(tmp_path: Path) -> None:
    expected = best_layers()
    engine = EngineUnderTest(tmp_path)
    with engine.client() as client:
        told = set(client.info().sandbox)
    assert told == expected
    inner = engine.inner_pids
    java = [pid for pid in inner if Path(f"/proc/{pid}/comm").read_text().strip() == "java"]
    assert java
    for pid in java:
        seen = seen_from_outside(pid)
        assert seen["network"] == (Layer.NO_NETWORK in told)
        assert seen["seccomp"] == (Layer.SECCOMP in told)
        assert seen["privileges"] == (Layer.NO_NEW_PRIVILEGES in told)
    assert "the sandbox of the engine: " + ", ".join(sorted(told)) in engine.log.read_text()
    assert len(list(engine.exchange.glob(".engine-*.sock"))) == 1
    engine.kill()
    wait_until(lambda: all(gone(pid) for pid in inner), what="the end of all that it started")


WITHOUT_NAMESPACES = (
    "import os, sys\n"
    "from odfabric_engine_spark.process.sandbox import kernel, system_calls\n"
    "kernel.gain_nothing_by_execution(); system_calls.filter_calls()\n"
    "os.execv(sys.executable, [sys.executable, '-P', '-m', 'odfabric_engine_spark', *sys.argv[1:]])\n"
)
"""A machine that refuses namespaces, as many containers do."""


def ended_pid() -> int:
    """The id of a process that has ended."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    return ended.pid


def test_what_cannot_be_sealed_is_refused_or_told(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a-token")
    ready = tmp_path / "ready.json"
    command = [sys.executable, "-P", "-c", WITHOUT_NAMESPACES, "--exchange", str(tmp_path / "exchange")]
    command += ["--token-file", str(tmp_path / "token"), "--listen", "unix:", "--memory-mib", "512"]
    command += ["--ready-file", str(ready), "--owner-pid", str(os.getpid())]
    refused = subprocess.run([*command, "--sandbox", "sealed"], capture_output=True, text=True, timeout=60, check=False)
    assert refused.returncode == 1
    assert refused.stderr.splitlines()[-1].startswith("the engine does not start: this machine cannot seal it")
    assert not ready.exists()
    of_a_killed_one = tmp_path / f"exchange/.engine-{ended_pid()}.sock"
    of_a_killed_one.touch()
    with (tmp_path / "log").open("w") as log, subprocess.Popen(command, stderr=log) as engine:
        wait_until(lambda: ready.exists() or engine.poll() is not None, deadline_s=90, what="the engine")
        engine.send_signal(signal.SIGTERM)
    assert engine.returncode == 0
    assert list((tmp_path / "exchange").iterdir()) == []
    said = (tmp_path / "log").read_text()
    assert "the engine cannot be sealed: it may reach the network" in said
    assert "the sandbox of the engine: landlock, no-new-privileges, seccomp" in said


def test_the_workspace_is_hidden_even_below_something_that_is_shown(tmp_path: Path) -> None:
    java = tmp_path / "java"
    (java / "workspace/exchange").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    (java / "conf").symlink_to(tmp_path / "elsewhere")
    view = view_of(exchange=java / "workspace/exchange", private=tmp_path / "private", java=java, cache=None)
    assert view.hidden == java / "workspace"
    assert tmp_path / "elsewhere" in view.read
    assert view_of(exchange=tmp_path / "w/e", private=tmp_path, java=java, cache=None).hidden is None
    forbidden = ("/", "/etc", "/home", "/root", "/proc", "/tmp", "/var", "/run", os.path.expanduser("~"))
    assert not {str(path) for path in view.read} & set(forbidden)
