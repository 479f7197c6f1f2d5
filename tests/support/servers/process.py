"""A server as a child process: unprivileged, on loopback, ended with its tests.

It is ended by its own pid.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from odfabric_engine_spark.process.parent_process import lives
from tests.support.waiting import wait_until

START_S_MAX = 60.0
END_S_MAX = 10.0
_PR_SET_PDEATHSIG = 1
_UNPRIVILEGED = "nobody"


@dataclass(frozen=True)
class Owner:
    """The user of servers: PostgreSQL refuses root, others need no root rights."""

    uid: int
    gid: int

    def options(self) -> dict[str, object]:
        """For subprocess."""
        if os.geteuid() != 0:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


def owner() -> Owner:
    """The user of this process, or an unprivileged one if that is root."""
    if os.geteuid() != 0:
        return Owner(os.geteuid(), os.getegid())
    found = pwd.getpwnam(_UNPRIVILEGED)
    return Owner(found.pw_uid, found.pw_gid)


@contextmanager
def server_folder(name: str) -> Iterator[Path]:
    """A folder that the server's user can reach, which those of pytest are not."""
    folder = Path(tempfile.mkdtemp(prefix=f"odf-{name}-", dir="/tmp"))
    try:
        if os.geteuid() == 0:
            os.chown(folder, owner().uid, owner().gid)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def reachable(program: Path, folder: Path, *, tree: Path | None = None) -> Path:
    """`program`, or a copy below `folder` with its `tree`, if servers cannot reach it."""
    if _runs(program):
        return program
    if tree is None:
        shutil.copy2(program, folder / program.name)
        return folder / program.name
    shutil.copytree(tree, folder / tree.name)
    return folder / tree.name / program.relative_to(tree)


def _runs(program: Path) -> bool:
    try:
        subprocess.run([program, "--help"], capture_output=True, check=False, **owner().options())  # type: ignore[call-overload]
    except PermissionError:
        return False
    return True


class ServerProcess:
    """A server that may be killed and started again on the same port and folder."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        *,
        end: signal.Signals,
        answers: Callable[[], bool],
        ours: bool = False,
    ) -> None:
        """`end` is the signal that ends it in order; `answers` says whether it serves.

        `ours`: it runs as the user of the tests, because it is a program of their environment, which others may not reach.
        """
        self._command = list(command)
        self._folder = folder
        self._end = end
        self._answers = answers
        self._ours = ours
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> Path:
        """What it wrote."""
        return self._folder / "server.log"

    def start(self) -> None:
        """Start it and wait until it serves."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._folder,
                env={
                    "HOME": str(self._folder),
                    "TMPDIR": str(self._folder),
                    "PATH": "/usr/bin:/bin",
                    "LC_ALL": "C.UTF-8",
                },
                start_new_session=True,
                preexec_fn=lambda: _die_with_parent(self._end),
                **({} if self._ours else owner().options()),  # type: ignore[call-overload]
            )
        wait_until(self._up, deadline_s=START_S_MAX, what=f"the start of {self._command[0]} (see {self.log})")

    def kill(self) -> None:
        """Kill it and its processes, as if the machine lost it.

        PostgreSQL does not start beside what is left of itself.
        """
        if self._process is not None:
            self._process.send_signal(signal.SIGSTOP)  # so that it makes no more
            made = _children(self._process.pid)
            self._process.kill()
            self._process.wait()
            wait_until(lambda: not any(map(lives, made)), deadline_s=END_S_MAX, what="the end of its processes")

    def stop(self) -> None:
        """End it in order, or at all."""
        if self._process is None or self._process.poll() is not None:
            return
        self._process.send_signal(self._end)
        try:
            self._process.wait(END_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()

    def _up(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(f"{self._command[0]} did not start: {self.log.read_text(errors='replace')[-2000:]}")
        return self._answers()


def _children(pid: int) -> list[int]:
    """The processes that a process has made, none if it is gone."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


@contextmanager
def running(server: ServerProcess) -> Iterator[ServerProcess]:
    """The server, ended with the context."""
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _die_with_parent(sign: signal.Signals) -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(sign))


def container(image: str, port: int, environment: dict[str, str], command: str = "") -> Iterator[str]:
    """`host:port` of a container.

    Where no engine answers the test fails, saying what it could have.
    """
    from testcontainers.core.container import DockerContainer  # only where nothing else is there

    made = DockerContainer(image).with_exposed_ports(port).with_command(command)
    for name, value in environment.items():
        made.with_env(name, value)
    with made:
        yield f"{made.get_container_host_ip()}:{made.get_exposed_port(port)}"
