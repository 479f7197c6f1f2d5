"""One engine a workspace: found if it runs, started if it does not.

Owns `engine.json` (address, token, pid), its lock file and the starting of the process. Invariant: at most one engine that was
started for a workspace runs at a time; anyone who finds it dead, or about to end, starts the next one under the lock, and ends before
what is left of it and what others began to start and could not record: both would tell their address by the same file. The engine
itself ends when it was idle for long or when its owner process is gone. Not here: what is said to the engine (`adapters.grpc_engine`).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from odfabric.errors import Determinate

_LOOK_EVERY_S = 0.05

ENVIRONMENT = re.compile(
    r"PATH|HOME|LANG|LC_[A-Z]+|TZ|TMPDIR|JAVA_HOME|LD_LIBRARY_PATH|PYTHON[A-Z]+|ODF_CRASH_AT|ODF_LOG_LEVEL", re.ASCII
)
"""What an engine gets of our environment: never a token or a key of ours."""

ENGINE_CRASH_POINTS = {
    "engine-process.ingest:before-result": "in the engine: a slice is written, its result not yet told",
    "engine-process.transform:before-result": "in the engine: a transaction is written, its result not yet told",
}
"""Crash points of the engine's own process; the others are points of the coordinator's processes."""


@dataclass(frozen=True, slots=True)
class EngineProcess:
    """A running engine: its address, the secret for calls, and its process."""

    address: str
    token: str
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineLaunch:
    """How to start an engine.

    `owner_pid` is the process that it must not outlive; `idle_s` 0 means it never idles out.

    `options` are further settings of the engine by name; what is named here goes before them. `sandbox` is how it is shut in: auto, sealed or unsealed. `spark_master` is the cluster that runs its tasks, and the
    file holds the secret of that.
    """

    workspace: Path
    exchange: Path
    memory_mib: int
    start_s_max: float
    call_s_max: float
    query_text_bytes_max: int
    column_name_bytes_max: int
    idle_s: float
    jvm_options: str = ""
    options: Mapping[str, float | bool] = field(default_factory=dict)
    sandbox: str = "auto"
    compat_listen: str | None = None
    compat_beyond_loopback: bool = False
    owner_pid: int | None = None
    cache_folder: Path | None = None
    spark_master: str | None = None
    spark_secret_file: Path | None = None


class EngineLauncher:
    """Finds or starts the engine of a workspace."""

    def __init__(self, launch: EngineLaunch) -> None:
        self._launch = launch
        self._record = launch.workspace / "engine.json"
        self._lock_file = launch.workspace / "engine.lock"
        self._log_file = launch.workspace / "engine.log"
        self._token_file = launch.workspace / "engine.token"
        self._ready_file = launch.workspace / "engine.ready"
        self._child: subprocess.Popen[bytes] | None = None
        """The engine that this process started last."""

    def ensure(self) -> EngineProcess:
        """The running engine, started if need be.

        Raises Determinate if it does not come up in time.
        """
        running = self.running()
        if running is not None:
            return running
        with self._locked():
            return self.running() or self._start()

    def running(self) -> EngineProcess | None:
        """The recorded engine, if it lives, is of this workspace and takes calls."""
        process = self._recorded()
        return process if process is not None and self._takes_calls(process) else None

    def _recorded(self) -> EngineProcess | None:
        """The engine that the record names, if its process lives; it may be about to end."""
        try:
            process = EngineProcess(**json.loads(self._record.read_text()))
        except (FileNotFoundError, ValueError, TypeError):
            return None
        return process if _is_engine(process.pid, self._launch.exchange) else None

    def _takes_calls(self, process: EngineProcess) -> bool:
        """Whether its ready file is there: an engine that ends removes it first."""
        try:
            ready = json.loads(self._ready_file.read_text())
            return bool(ready["address"] == process.address)
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return False

    def stop(self) -> None:
        """End the engine if it runs, with SIGTERM first; returns when the process is gone."""
        with self._locked():
            process = self._recorded()
            if process is not None:
                _end(process.pid)
            self._record.unlink(missing_ok=True)
            self._end_own()

    def _end_own(self) -> None:
        """End what is left of the engine that this process started last, and reap it.

        A process that is ending has no command line for a moment before it is gone: nobody finds it
        by name then, and it still holds what the next engine needs.
        """
        if self._child is not None and self._child.poll() is None:
            _end(self._child.pid)
            self._child.poll()

    def _start(self) -> EngineProcess:
        launch = self._launch
        for stray in _engines(launch.exchange, self._token_file):
            _end(stray)
        self._end_own()
        token = secrets.token_urlsafe(32)
        _write_private(self._token_file, token)
        ready = self._ready_file
        ready.unlink(missing_ok=True)
        command = [
            *(sys.executable, "-P", "-m", "odfabric_engine_spark"),
            *(_option(name, value) for name, value in launch.options.items()),
            *("--listen", "unix:"),
            *("--sandbox", launch.sandbox),
            *("--exchange", str(launch.exchange)),
            *("--token-file", str(self._token_file)),
            *("--ready-file", str(ready)),
            *("--memory-mib", str(launch.memory_mib), f"--jvm-options={launch.jvm_options}"),
            *("--idle-s", str(launch.idle_s)),
            *("--call-s-max", str(launch.call_s_max)),
            *("--query-bytes-max", str(launch.query_text_bytes_max)),
            *("--column-name-bytes-max", str(launch.column_name_bytes_max)),
        ]
        if launch.compat_listen is not None:
            command += ["--compat", "--compat-listen", launch.compat_listen]
            command += ["--compat-beyond-loopback"] if launch.compat_beyond_loopback else []
        if launch.owner_pid is not None:
            command += ["--owner-pid", str(launch.owner_pid)]
        if launch.cache_folder is not None:
            command += ["--cache", str(launch.cache_folder)]
        if launch.spark_master is not None:
            command += ["--spark-master", launch.spark_master]
        if launch.spark_secret_file is not None:
            command += ["--spark-secret-file", str(launch.spark_secret_file)]
        environment = {name: value for name, value in os.environ.items() if ENVIRONMENT.fullmatch(name)}
        if self._record.exists():
            # The engine before this one died, perhaps at its crash point: a drill kills once, or work would never end.
            environment.pop("ODF_CRASH_AT", None)
        with self._log_file.open("ab") as log:
            # A session of its own: Ctrl-C on a terminal must not kill an engine that others use, or before its owner asks.
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        self._child = child
        try:
            address = self._wait_until_ready(child, ready)
        except BaseException:
            # Nobody would know of it. It ends when it has started; who is interrupted does not wait for that, who starts the next one does.
            child.terminate()
            raise
        process = EngineProcess(address, token, child.pid)
        _write_private(self._record, json.dumps(asdict(process)))
        return process

    def _wait_until_ready(self, child: subprocess.Popen[bytes], ready: Path) -> str:
        deadline = time.monotonic() + self._launch.start_s_max
        while time.monotonic() < deadline:
            with contextlib.suppress(FileNotFoundError, ValueError):
                return str(json.loads(ready.read_text())["address"])
            if child.poll() is not None:
                break
            time.sleep(_LOOK_EVERY_S)
        else:
            _end(child.pid)
        raise Determinate(
            f"the engine did not start: {_last_line(self._log_file)}", hint="engine.log in the workspace says more"
        )

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._lock_file.parent.mkdir(parents=True, exist_ok=True)
        with self._lock_file.open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _option(name: str, value: float | bool) -> str:
    option = name.replace("_", "-")
    if isinstance(value, bool):
        return f"--{option}" if value else f"--no-{option}"
    return f"--{option}={value}"


def _write_private(path: Path, text: str) -> None:
    pending = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as handle:
        handle.write(text)
    pending.rename(path)


def _is_engine(pid: int, exchange: Path) -> bool:
    """Whether the process lives and is an engine on this exchange folder.

    Process ids are reused.
    """
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return False
    return state != "Z" and b"odfabric_engine_spark" in arguments and os.fsencode(exchange) in arguments


def _engines(exchange: Path, token_file: Path) -> list[int]:
    """Engines that were started for this workspace, no matter who started them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if os.fsencode(token_file) in (process / "cmdline").read_bytes().split(b"\0"):
                found.append(int(process.name))
    return [pid for pid in found if _is_engine(pid, exchange)]


def _end(pid: int, patience_s: float = 10.0) -> None:
    for sign, wait_s in ((signal.SIGTERM, patience_s), (signal.SIGKILL, patience_s)):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, sign)
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            with contextlib.suppress(ChildProcessError, OSError):
                os.waitpid(pid, os.WNOHANG)
            if not _alive(pid):
                return
            time.sleep(_LOOK_EVERY_S)


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError, IndexError):
        return False


def _last_line(path: Path) -> str:
    with contextlib.suppress(FileNotFoundError):
        lines = [line for line in path.read_bytes()[-4096:].decode(errors="replace").splitlines() if line.strip()]
        if lines:
            return lines[-1]
    return "it printed nothing"
