"""`odf up`: an embedded node in the foreground: api, worker, engine processes.

Owns their start, their restart when one dies, and their end. Invariant: nothing outlives this process: children are informed whom they
belong to and end with it even if it is killed; they are ended by their own pid. Not here: what the children do.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from odfabric.asked_to_end import AskedToEnd
from odfabric.errors import AlreadyExists, Determinate
from odfabric.settings import Settings
from odfabric.wiring import engine_launcher, prepare_workspace

START_S_MAX = 120.0
STOP_S_MAX = 15.0
RESTARTS_MAX = 5
RESTARTS_WINDOW_S = 60.0
_LOOK_EVERY_S = 0.05
_LOG_PREFIX = re.compile(r"^\d{4}-\S+ \S+ \w+ [A-Z]+ [\w.]+: ")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningNode:
    """What a user needs to reach the node; also the ready file."""

    url: str
    token: str
    engine: str
    pid: int

    def to_value(self) -> dict[str, object]:
        """As JSON."""
        return {"url": self.url, "token": self.token, "engine": self.engine, "pid": self.pid}


@dataclass(slots=True)
class _Child:
    """A child process and how to start it again."""

    name: str
    command: list[str]
    ready: Path
    process: subprocess.Popen[bytes] | None = None
    log_start: int = 0
    deaths: deque[float] = field(default_factory=deque)


class Supervisor:
    """Starts and keeps the processes of an embedded node."""

    def __init__(
        self, settings: Settings, *, host: str, port: int, say: Callable[[str], None], warm_engine: bool = True
    ) -> None:
        """`warm_engine` False leaves the engine to the first call that needs it."""
        self._settings = settings
        self._say = say
        self._warm = warm_engine
        self._folder = settings.workspace / "run"
        self._stop = AskedToEnd()
        self._gave_up = False
        owner = ("--owner-pid", str(os.getpid()))
        self._api = self._child("api", "odfabric_api", *owner, "--host", host, "--port", str(port))
        self._worker = self._child("worker", "odfabric_worker", *owner)
        self._engine = engine_launcher(settings, owner_pid=os.getpid())

    @contextlib.contextmanager
    def running(self) -> Iterator[RunningNode]:
        """The node, ready; ended when the context ends.

        Raises Determinate if a part does not start.
        """
        token = prepare_workspace(self._settings)
        self._folder.mkdir(parents=True, exist_ok=True)
        with self._alone():
            yield from self._started(token)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Two nodes on one workspace would end each other's engine."""
        with (self._folder / "up.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise AlreadyExists(
                    f"a node runs on {self._settings.workspace} already",
                    hint="end it first, or choose another workspace",
                ) from None
            yield

    def _started(self, token: str) -> Iterator[RunningNode]:
        try:
            # An engine of an earlier command would leave when it idles; ours stays as long as we do.
            self._engine.stop()
            warming = threading.Thread(target=self._warm_engine, daemon=True)
            if self._warm:
                warming.start()
            for child in (self._api, self._worker):
                self._start(child, first=True)
            url = str(json.loads(self._wait_ready(self._api))["url"])
            self._wait_ready(self._worker)
            engine = self._warmed(warming)
            watching = threading.Thread(target=self._watch, daemon=True)
            watching.start()
            yield RunningNode(url=url, token=token, engine=engine, pid=os.getpid())
        finally:
            self._end_all()

    def heed_signals(self) -> None:
        """From now on SIGINT and SIGTERM end the node in order, also while it is starting."""
        for sign in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, lambda *_: self._stop.set())

    def wait(self) -> int:
        """Until `heed_signals` was heeded or a child cannot be kept alive; the exit code."""
        while not self._stop.wait(1.0):
            pass
        return 3 if self._gave_up else 0

    def _child(self, name: str, module: str, *arguments: str) -> _Child:
        ready = self._folder / f"{name}.ready"
        command = [sys.executable, "-P", "-m", module, *arguments, "--ready-file", str(ready)]
        return _Child(name, command, ready)

    def _start(self, child: _Child, *, first: bool) -> None:
        command = [*child.command, *self._inheritance(child)]
        child.ready.unlink(missing_ok=True)
        environment = _environment(self._settings)
        if not first:
            # A crash point has fired: the drill is over for the node, or it would never come back.
            environment.pop("ODF_CRASH_AT", None)
        with self._log(child).open("ab") as log:
            child.log_start = log.tell()
            child.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def _inheritance(self, child: _Child) -> list[str]:
        """What a worker inherits: jobs of the one before it need not wait for leases."""
        if child is not self._worker or not child.ready.exists():
            return []
        pid = child.ready.read_text().strip()
        return ["--predecessor-pid", pid] if pid.isdecimal() and not Path(f"/proc/{pid}").exists() else []

    def _wait_ready(self, child: _Child) -> str:
        deadline = time.monotonic() + START_S_MAX
        while time.monotonic() < deadline:
            if self._stop.is_set():
                raise KeyboardInterrupt
            if child.ready.exists() and (text := child.ready.read_text()):
                return text
            if child.process is None or child.process.poll() is not None:
                break
            time.sleep(_LOOK_EVERY_S)
        raise Determinate(
            f"the {child.name} process did not start{self._last_words(child)}",
            hint=f"see {child.name}.log in the workspace",
        )

    def _log(self, child: _Child) -> Path:
        return self._settings.workspace / f"{child.name}.log"

    def _last_words(self, child: _Child) -> str:
        """The last line that a child wrote since it was started, without time and logger."""
        with self._log(child).open("rb") as log:
            log.seek(child.log_start)
            lines = log.read().decode(errors="replace").split("\n")
        said = [line for line in lines if line.strip()]
        return f": {_LOG_PREFIX.sub('', said[-1])}" if said else ""

    def _warm_engine(self) -> None:
        with contextlib.suppress(Determinate):
            self._engine.ensure()  # the caller ensures again and is informed what is wrong

    def _warmed(self, warming: threading.Thread) -> str:
        if not self._warm:
            return ""
        deadline = time.monotonic() + START_S_MAX
        while warming.is_alive() and time.monotonic() < deadline:
            if self._stop.is_set():
                raise KeyboardInterrupt
            warming.join(_LOOK_EVERY_S)
        return self._engine.ensure().address

    def _watch(self) -> None:
        while not self._stop.wait(_LOOK_EVERY_S * 4):
            for child in (self._api, self._worker):
                if child.process is not None and child.process.poll() is not None and not self._stop.is_set():
                    self._restart(child)

    def _restart(self, child: _Child) -> None:
        now = time.monotonic()
        child.deaths.append(now)
        while child.deaths[0] < now - RESTARTS_WINDOW_S:
            child.deaths.popleft()
        if len(child.deaths) > RESTARTS_MAX:
            self._say(f"{child.name} died {len(child.deaths)} times within {RESTARTS_WINDOW_S:.0f} s; giving up")
            self._gave_up = True
            self._stop.set()
            return
        self._say(f"{child.name} ended unexpectedly; starting it again")
        self._keep_port(child)
        self._start(child, first=False)

    def _keep_port(self, child: _Child) -> None:
        """A port that was chosen freely stays the node's while it runs."""
        if child is self._api and child.ready.exists():
            port = str(json.loads(child.ready.read_text())["url"]).rpartition(":")[2]
            child.command[child.command.index("--port") + 1] = port

    def _end_all(self) -> None:
        self._stop.set()
        children = [child.process for child in (self._api, self._worker) if child.process is not None]
        for process in children:
            process.terminate()
        deadline = time.monotonic() + STOP_S_MAX
        for process in children:
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._engine.stop()


def _environment(settings: Settings) -> dict[str, str]:
    """Settings of the children: those of this process, by the environment."""
    told = {
        "ODF_WORKSPACE": str(settings.workspace),
        "ODF_ANONYMOUS_READ": str(settings.anonymous_read),
        "ODF_EGRESS_ALLOW": json.dumps(list(settings.egress_allow)),
        "ODF_REMOTE_TOKENS": json.dumps(
            {origin: token.get_secret_value() for origin, token in settings.remote_tokens.items()}
        ),
        "ODF_ENGINE_OWNER_PID": str(os.getpid()),
    }
    if settings.poll_folder is not None:
        told["ODF_POLL_FOLDER"] = str(settings.poll_folder)
    # The environment may name stores for other nodes than this one.
    places = {"ODF_DATABASE_URL": settings.database_url, "ODF_OBJECTS_URL": settings.objects_url}
    places["ODF_REDIS_URL"] = settings.redis_url
    named = {name: place for name, place in places.items() if place is not None}
    inherited = {name: value for name, value in os.environ.items() if name not in places}
    return {**inherited, **named, **told}
