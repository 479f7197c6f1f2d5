"""A node on servers, each a process that can be killed.

Two apis, two workers, one engine, PostgreSQL, Valkey and S3.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.front_door import FrontDoor
from tests.support.node_process import ENGINE_MEMORY_MIB, START_S_MAX, Odf, clean_environment
from tests.support.servers.postgres import PostgresServer, postgres_server
from tests.support.servers.s3 import S3Server, s3_server
from tests.support.servers.valkey import RedisServer, redis_server
from tests.support.waiting import free_port, wait_until

APIS = ("api-1", "api-2")
WORKERS = ("worker-1", "worker-2")
ENGINE = "engine"
END_S_MAX = 20.0
LEASE_S = 3.0
"""How long the job of a killed worker waits for another one."""


@dataclass
class ServedNode:
    """The processes by name, and the address before the apis."""

    workspace: Path
    polled: Path
    token: str
    environment: dict[str, str]
    postgres: PostgresServer
    redis: RedisServer
    s3: S3Server
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    url: str = ""

    def start(self, name: str) -> None:
        """Start a part, again if it was killed, and wait until it is ready."""
        ready = self.workspace / f"{name}.ready"
        ready.unlink(missing_ok=True)
        with (self.workspace / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen(
                [sys.executable, "-P", "-m", *self._command(name), "--ready-file", str(ready)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=clean_environment(**self.environment),
                start_new_session=True,
            )
        process = self.processes[name]
        wait_until(lambda: ready.exists() or process.poll() is not None, deadline_s=START_S_MAX, what=f"the {name}")
        assert process.poll() is None, (self.workspace / f"{name}.log").read_text()[-3000:]

    def kill(self, name: str) -> None:
        """SIGKILL, for a server too."""
        if name in self.processes:
            self.processes[name].kill()
            self.processes[name].wait()
            return
        process = {"postgres": self.postgres, "redis": self.redis, "s3": self.s3}[name].process
        assert process is not None, "somebody's own server is not killed"
        process.kill()

    def restart(self, name: str) -> None:
        """Start again what was killed."""
        if name in self.processes:
            self.start(name)
            return
        process = {"postgres": self.postgres, "redis": self.redis, "s3": self.s3}[name].process
        assert process is not None
        process.start()

    def apis(self) -> list[tuple[str, int]]:
        """Addresses of the apis that are ready."""
        found = []
        for name in APIS:
            ready = self.workspace / f"{name}.ready"
            if ready.exists() and (text := ready.read_text()):
                host, _, port = json.loads(text)["url"].removeprefix("http://").partition(":")
                found.append((host, int(port)))
        return found

    def end(self) -> None:
        """End all parts in order."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(END_S_MAX)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def logs(self) -> str:
        """The last lines of all parts."""
        tails = []
        for log in sorted(self.workspace.glob("*.log")):
            tails.append(f"== {log.name}\n{log.read_text(errors='replace')[-1500:]}")
        return "\n".join(tails)

    def _command(self, name: str) -> list[str]:
        owner = ["--owner-pid", str(os.getpid())]
        if name in APIS:
            return ["odfabric_api", "--port", "0", *owner]
        if name in WORKERS:
            return ["odfabric_worker", *owner]
        return [
            "odfabric_engine_spark",
            *owner,
            *("--listen", self.environment["ODF_ENGINE_ADDRESS"]),
            *("--token-file", str(self.workspace / "engine.token")),
            *("--exchange", str(self.workspace / "exchange")),
            *("--cache", self.environment["ODF_ENGINE_CACHE"]),
            *("--memory-mib", str(ENGINE_MEMORY_MIB)),
        ]


@contextmanager
def served_node(folder: Path, *, engine_cache: Path) -> Iterator[ServedNode]:
    """The whole set, ready; it and its servers are ended with the context."""
    with ExitStack() as ending:
        postgres, redis = ending.enter_context(postgres_server()), ending.enter_context(redis_server())
        s3 = ending.enter_context(s3_server())
        workspace, polled = folder / "workspace", folder / "polled"
        workspace.mkdir(parents=True)
        (workspace / "exchange").mkdir()
        polled.mkdir()
        token, engine_token = os.urandom(20).hex(), os.urandom(20).hex()
        (workspace / "engine.token").write_text(engine_token)
        environment = {
            "ODF_WORKSPACE": str(workspace),
            "ODF_TOKEN": token,
            "ODF_DATABASE_URL": postgres.create_database(),
            "ODF_OBJECTS_URL": f"s3://{s3.create_bucket()}/node",
            "ODF_S3_ENDPOINT_URL": s3.endpoint,
            "ODF_S3_PUBLIC_ENDPOINT_URL": s3.endpoint,
            "ODF_S3_ACCESS_KEY": s3.access_key,
            "ODF_S3_SECRET_KEY": s3.secret_key,
            "ODF_REDIS_URL": redis.url,
            "ODF_ENGINE_ADDRESS": f"127.0.0.1:{free_port()}",
            "ODF_ENGINE_TOKEN": engine_token,
            "ODF_ENGINE_CACHE": str(engine_cache),
            "ODF_POLL_FOLDER": str(polled),
            "ODF_EGRESS_ALLOW": json.dumps(["127.0.0.0/8"]),
            "ODF_LEASE_S": str(LEASE_S),
        }
        node = ServedNode(workspace, polled, token, environment, postgres, redis, s3)
        made = Odf(environment=environment).json("init")
        assert made["workspace"] == str(workspace)
        ending.callback(node.end)
        for name in (ENGINE, *APIS, *WORKERS):
            node.start(name)
        node.url = ending.enter_context(FrontDoor(node.apis).open()).url
        yield node
