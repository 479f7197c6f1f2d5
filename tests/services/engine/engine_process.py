"""Engine processes of tests, called through the adapter, never left running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from odfabric.adapters.grpc_engine.engine import EngineChannel, GrpcEngine
from tests.support.engines.class_archive import class_archive
from tests.support.engines.quick_jvm import QUICK_JVM
from tests.support.process_tree import descendants
from tests.support.waiting import wait_until

TOKEN = "a-token-for-tests"


@dataclass
class EngineUnderTest:
    """One process and the exchange folder that it serves."""

    folder: Path
    options: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    call_s_max: float = 400.0
    jvm_options: str = QUICK_JVM

    def __post_init__(self) -> None:
        self.exchange = self.folder / "exchange"
        self.exchange.mkdir(parents=True, exist_ok=True)
        (self.folder / "token").write_text(TOKEN)
        self.ready_file = self.folder / "ready.json"
        self.ready_file.unlink(missing_ok=True)
        self.log = self.folder / "engine.log"
        command = [
            *(sys.executable, "-P", "-m", "odfabric_engine_spark", "--listen", "127.0.0.1:0"),
            *("--exchange", str(self.exchange), "--token-file", str(self.folder / "token")),
            *("--ready-file", str(self.ready_file), "--memory-mib", "1024", f"--jvm-options={self.jvm_options}"),
            *("--owner-pid", str(os.getpid()), *_archive_options(), *self.options),
        ]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, **self.environment}
            )
        try:
            wait_until(self._is_ready, deadline_s=90, what="the engine's ready file")
        except AssertionError:
            self.process.kill()
            raise
        self.address = str(json.loads(self.ready_file.read_text())["address"])

    def _is_ready(self) -> bool:
        assert self.process.poll() is None, self.log.read_text()[-2000:]
        return self.ready_file.exists()

    @property
    def compat_address(self) -> str:
        """Where it offers `engine.Engine`."""
        return str(json.loads(self.ready_file.read_text())["compat_address"])

    def client(self, *, token: str = TOKEN, call_s_max: float | None = None) -> GrpcEngine:
        """A connection of its own."""
        return GrpcEngine(EngineChannel(address=self.address, token=token, call_s_max=call_s_max or self.call_s_max))

    @property
    def inner_pids(self) -> list[int]:
        """All processes below the one that was started, the JVM among them."""
        return [seen.pid for seen in descendants(self.process.pid)]

    def cpu_s(self) -> float:
        """Processor time of engine and JVM so far."""
        ticks = 0
        for pid in (self.process.pid, *self.inner_pids):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def is_calm(self) -> bool:
        """Whether engine and JVM use little of a processor over half a second."""
        before, started = self.cpu_s(), time.monotonic()
        wait_until(lambda: time.monotonic() - started > 0.5, what="half a second")
        return self.cpu_s() - before < 0.25

    def stop(self) -> int:
        """Ends it in order; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(30)

    def kill(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait(30)


def _archive_options() -> tuple[str, ...]:
    folder = class_archive()
    return () if folder is None else ("--cache", str(folder))


def gone(pid: int) -> bool:
    """Whether a process has ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True
