"""A standalone Spark cluster on loopback: one master and workers.

As the user of the tests, who share folders with executors.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from odfabric_engine_spark.spark.jvm.jvm_process import die_with_parent
from tests.support.process_tree import children
from tests.support.servers.process import END_S_MAX
from tests.support.waiting import free_port, wait_until

MASTER_MIB, WORKER_MIB, EXECUTOR_MIB = 256, 256, 700
START_S_MAX = 120.0


@dataclass
class SparkCluster:
    """Processes that may be killed and started again by number."""

    folder: Path
    master: str
    secret_file: Path
    masters: list[subprocess.Popen[bytes]] = field(default_factory=list)
    workers: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start_worker(self, number: int) -> None:
        """A worker with room for one executor, at its own address like a machine."""
        self.workers[number] = self._started(
            f"worker-{number}",
            *("worker", "--master", self.master, "--host", f"127.0.0.{number + 2}"),
            *("--cores", "1", "--memory-mib", str(WORKER_MIB)),
            *("--executors-memory-mib", str(EXECUTOR_MIB), "--work", str(self.folder / f"work-{number}")),
        )

    def start_master(self, port: int) -> None:
        """The master; returns when it takes connections."""
        process = self._started("master", "master", "--port", str(port), "--memory-mib", str(MASTER_MIB))
        self.masters.append(process)
        wait_until(lambda: _listens(process, port), deadline_s=START_S_MAX, what="the master of Spark")

    def executors(self, number: int) -> list[int]:
        """Executors of a worker, by pid.

        Processes that they start for tasks of ours are not counted.
        """
        return children(self.workers[number].pid)

    def kill_worker(self, number: int) -> None:
        """Kill as if its machine was lost: the executor first, so it cannot sign off.

        The worker is stopped before, or it would start another executor, which works until it finds that there is no worker.
        """
        self.workers[number].send_signal(signal.SIGSTOP)
        for pid in self.executors(number):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        _end(self.workers.pop(number), kill=True)

    def _started(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "odfabric_engine_spark.process.cluster_process", *arguments]
        command += ["--secret-file", str(self.secret_file)]
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder, preexec_fn=die_with_parent
            )


@contextmanager
def spark_cluster(folder: Path, *, workers: int) -> Iterator[SparkCluster]:
    """A cluster, ended with the context."""
    secret_file = folder / "secret"
    secret_file.write_text(secrets.token_urlsafe(24))
    secret_file.chmod(0o600)
    port = free_port()
    cluster = SparkCluster(folder, f"spark://127.0.0.1:{port}", secret_file)
    try:
        cluster.start_master(port)
        for number in range(workers):
            cluster.start_worker(number)
        yield cluster
    finally:
        for process in (*cluster.workers.values(), *cluster.masters):
            _end(process)


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, "the master ended"
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
        return True
    return False


def _end(process: subprocess.Popen[bytes], *, kill: bool = False) -> None:
    if kill:
        process.kill()
    else:
        process.terminate()
    try:
        process.wait(END_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
