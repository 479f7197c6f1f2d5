"""`odf doctor`: probes of what surrounds a node, as settings describe it.

Owns which checks a node has. Invariant: opens no node and prepares nothing, so that it works when these would fail. Each check makes its
connections by itself, within its own time.
"""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import TypeVar

from odfabric import __version__
from odfabric.adapters.engine_process.machine import ThisMachine
from odfabric.adapters.local_fs.folder_locks import FolderLocks
from odfabric.adapters.local_fs.workspace_probe import FolderProbe
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.jobs.duties import SqlDuties
from odfabric.adapters.sql.probe import SqlProbe
from odfabric.adapters.sql.sealed_columns import sealed_stores
from odfabric.adapters.system.bounded import ThreadBounded
from odfabric.adapters.system.clock import SystemClock
from odfabric.model.engine import EngineInfo
from odfabric.model.jobs.duty import DutyReport
from odfabric.model.node.finding import Finding
from odfabric.model.node.surroundings import DatabaseState, RedisState
from odfabric.ports.node.sealing import SealedRow
from odfabric.settings import Settings
from odfabric.usecases.doctor.diagnose import Check, diagnose
from odfabric.usecases.doctor.process_checks import engine_checks, versions_check, worker_check
from odfabric.usecases.doctor.sealing_check import sealing_check
from odfabric.usecases.doctor.server_checks import database_checks, objects_check, redis_check
from odfabric.usecases.doctor.workspace_checks import RoomLimits, workspace_checks
from odfabric.wiring.embedded import engine_known, own_engine
from odfabric.wiring.monitoring.overview import places
from odfabric.wiring.places.database_place import DATABASE_FILE, database_place
from odfabric.wiring.places.identity import KEY_FILE, TOKEN_FILE
from odfabric.wiring.places.keys import node_sealing
from odfabric.wiring.places.stores import LOCKS_FOLDER, open_bucket

T = TypeVar("T")

NOTHING_SEALED = b"\x00"
"""Nothing that is sealed begins with it, in any form."""
SECRET_FILES = (
    KEY_FILE,
    TOKEN_FILE,
    DATABASE_FILE,
    f"{DATABASE_FILE}-wal",
    f"{DATABASE_FILE}-shm",
    "engine.json",
    "engine.token",
)
LIBRARIES = ("sqlalchemy", "psycopg", "boto3", "redis", "celery", "grpcio", "pyarrow", "pydantic", "fastapi", "pyspark")


def findings_of(settings: Settings) -> Sequence[Finding]:
    """Everything that the checks find.

    Never raises for what is wrong with the node's surroundings.
    """
    return diagnose(doctor_checks(settings), bounded=ThreadBounded(), within_s=settings.doctor_check_s_max)


def doctor_checks(settings: Settings) -> Sequence[Check]:
    """The checks of a node with these settings, in the order of the report."""
    clock, where = SystemClock(), places(settings)
    probe = FolderProbe(settings.workspace, secret_names=SECRET_FILES)
    room = RoomLimits(free_mib_min=settings.doctor_free_mib_min, free_share_min=settings.doctor_free_share_min)
    has_servers = settings.database_url is not None
    checks = [
        versions_check(versions),
        *workspace_checks(
            probe,
            path=str(settings.workspace),
            limits=room,
        ),
        *database_checks(
            _Database(settings),
            kind=where.database,
            is_file=not has_servers,
            clock=clock,
            offset_s_max=settings.doctor_clock_s_max,
        ),
    ]
    checks.append(sealing_check(node_sealing(settings), lambda: _sealed_samples(settings), key_name=KEY_FILE))
    if settings.objects_url is not None:
        checks.append(objects_check(lambda: _check_bucket(settings), kind=where.objects))
    if settings.redis_url is not None:
        checks.append(redis_check(_Redis(settings, settings.redis_url)))
    machine = (
        None
        if settings.engine_address and settings.engine_token
        else ThisMachine(wait_s_max=settings.doctor_check_s_max)
    )
    checks += engine_checks(
        lambda: _running_engine(settings),
        machine,
        memory_mib=settings.engine_memory_mib,
        must_seal=settings.engine_sandbox == "sealed",
    )
    checks.append(worker_check(_Duties(settings), clock=clock, has_servers=has_servers))
    return checks


def versions() -> Mapping[str, str]:
    """Of the node, of Python, of the system and of libraries that are installed."""
    found = {"odfabric": __version__, "Python": platform.python_version(), platform.system(): platform.release()}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue  # images of the api and workers have no Spark
    return found


class _Database:
    """A DatabaseProbe that connects when it looks."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def look(self) -> DatabaseState:
        return on_database(self._settings, lambda database: SqlProbe(database).look())


class _Duties:
    """Duties that connect when they are read."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def report(self, report: DutyReport) -> None:
        on_database(self._settings, lambda database: SqlDuties(database).report(report))

    def reports(self) -> Sequence[DutyReport]:
        def read(database: Database) -> Sequence[DutyReport]:
            SqlProbe(database).demand_prepared()
            return SqlDuties(database).reports()

        return on_database(self._settings, read)


class _Redis:
    """A RedisProbe whose client is loaded when it looks."""

    def __init__(self, settings: Settings, url: str) -> None:
        self._settings = settings
        self._url = url

    def look(self) -> RedisState:
        from odfabric.adapters.redis.probe import RedisServerProbe

        return RedisServerProbe(self._url, wait_s_max=self._settings.doctor_check_s_max / 2).look()


def on_database(settings: Settings, ask: Callable[[Database], T]) -> T:
    """What `ask` says of the database, over a connection that ends with it.

    Waits for locks no longer than a check may take.
    """
    with _opened(settings) as database:
        return ask(database)


@contextmanager
def _opened(settings: Settings) -> Iterator[Database]:
    wait_s = min(settings.database_busy_s_max, settings.doctor_check_s_max / 2)
    database = Database(database_place(settings), busy_s_max=wait_s, connections_max=1)
    try:
        yield database
    finally:
        database.close()


def _sealed_samples(settings: Settings) -> Sequence[SealedRow]:
    """One secret of each store that has some."""

    def read(database: Database) -> Sequence[SealedRow]:
        SqlProbe(database).demand_prepared()
        stores = sealed_stores(database)
        rows = [(store, row) for store in stores for row in store.rows(unlike=NOTHING_SEALED, after=None, limit=1)]
        return [row for store, row in rows if not store.is_plain(row.data)]

    return on_database(settings, read)


def _check_bucket(settings: Settings) -> None:
    bucket = open_bucket(settings, exclusive=FolderLocks(settings.workspace / LOCKS_FOLDER).exclusive)
    try:
        bucket.check(create=False)
    finally:
        bucket.close()


def _running_engine(settings: Settings) -> EngineInfo | None:
    at_once = {"engine_return_s_max": 0.0, "engine_repeats_max": 0}
    answer = {"engine_validate_s_max": settings.doctor_check_s_max / 2}
    with ExitStack() as closing:
        return engine_known(own_engine(settings.model_copy(update=at_once | answer), closing))()
