"""Probes of a node's surroundings: memory and the real ones keep one contract."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.workspace_probe import FolderProbe
from odfabric.adapters.memory.node.surroundings import InlineBounded, MemoryProbe, MemoryWorkspaceProbe
from odfabric.adapters.redis.probe import RedisServerProbe
from odfabric.adapters.sql.database import Database
from odfabric.adapters.sql.probe import SqlProbe
from odfabric.adapters.system.bounded import ThreadBounded
from odfabric.errors import Determinate
from odfabric.model.instant import Instant
from odfabric.model.node.surroundings import DatabaseState, FileState, RedisState
from odfabric.ports.node.surroundings import Bounded, DatabaseProbe, RedisProbe, WorkspaceProbe
from odfabric.testing.conformance.node.surroundings import (
    AbsentWorkspaceContract,
    BoundedContract,
    DatabaseProbeContract,
    RedisProbeContract,
    WorkspaceProbeContract,
)
from tests.support.servers.valkey import RedisServer
from tests.support.waiting import free_port

STATE = DatabaseState(
    version="16.1", revision="0001", needed="0001", asked_at=Instant(1), answer_s=0.1, now=Instant(2), newest=None
)


class TestMemoryWorkspace(WorkspaceProbeContract):
    @pytest.fixture
    def probe(self) -> WorkspaceProbe:
        return MemoryWorkspaceProbe(files=[FileState("node.token", 0o640, is_own=True, is_readable=True)])


class TestFolder(WorkspaceProbeContract):
    @pytest.fixture
    def probe(self, tmp_path: Path) -> WorkspaceProbe:
        folder = tmp_path / "workspace"
        folder.mkdir()
        (folder / "node.token").touch()
        (folder / "node.token").chmod(0o640)
        return FolderProbe(folder, secret_names=["node.token", "dataset-keys.key"])

    def test_its_own_file_is_gone(self, probe: WorkspaceProbe, tmp_path: Path) -> None:
        probe.try_write()
        assert [path.name for path in (tmp_path / "workspace").iterdir()] == ["node.token"]


class TestAbsentFolder(AbsentWorkspaceContract):
    @pytest.fixture
    def absent(self, tmp_path: Path) -> WorkspaceProbe:
        return FolderProbe(tmp_path / "absent", secret_names=["node.token"])


class TestMemoryDatabase(DatabaseProbeContract):
    @pytest.fixture
    def probe(self) -> DatabaseProbe:
        return MemoryProbe(STATE)

    @pytest.fixture
    def away(self) -> DatabaseProbe:
        away: MemoryProbe[DatabaseState] = MemoryProbe(None)
        return away


class TestSqlite(DatabaseProbeContract):
    @pytest.fixture
    def probe(self, sqlite_url: str) -> Iterator[DatabaseProbe]:
        yield from probing(sqlite_url)

    @pytest.fixture
    def away(self, tmp_path: Path) -> Iterator[DatabaseProbe]:
        yield from probing(tmp_path / "absent.db")

    def test_a_look_makes_no_file(self, away: DatabaseProbe, tmp_path: Path) -> None:
        with pytest.raises(Determinate, match="no database file"):
            away.look()
        assert not (tmp_path / "absent.db").exists()


class TestPostgres(DatabaseProbeContract):
    @pytest.fixture
    def probe(self, migrated_url: str) -> Iterator[DatabaseProbe]:
        yield from probing(migrated_url)

    @pytest.fixture
    def away(self) -> Iterator[DatabaseProbe]:
        yield from probing(f"postgresql://u:p@127.0.0.1:{free_port()}/d")

    def test_it_has_a_clock_of_its_own(self, probe: DatabaseProbe) -> None:
        assert probe.look().now is not None

    def test_tables_are_measured(self, migrated_url: str) -> None:
        database = Database(migrated_url)
        try:
            tables = SqlProbe(database).tables()
        finally:
            database.close()
        assert tables["jobs"].rows == 0
        assert (tables["jobs"].size_bytes or 0) > 0


class TestMemoryRedis(RedisProbeContract):
    @pytest.fixture
    def probe(self) -> RedisProbe:
        return MemoryProbe(RedisState("8.0", "noeviction"))

    @pytest.fixture
    def away(self) -> RedisProbe:
        away: MemoryProbe[RedisState] = MemoryProbe(None)
        return away


class TestRedis(RedisProbeContract):
    @pytest.fixture
    def probe(self, redis_of_tests: RedisServer) -> RedisProbe:
        return RedisServerProbe(redis_of_tests.url, wait_s_max=30.0)

    @pytest.fixture
    def away(self) -> RedisProbe:
        return RedisServerProbe(f"redis://:secret@127.0.0.1:{free_port()}/0", wait_s_max=30.0)


class TestInlineBounded(BoundedContract):
    @pytest.fixture
    def bounded(self) -> Bounded:
        return InlineBounded()


class TestThreadBounded(BoundedContract):
    @pytest.fixture
    def bounded(self) -> Bounded:
        return ThreadBounded()

    def test_one_that_hangs_is_left_behind(self, bounded: Bounded) -> None:
        released = threading.Event()
        ended = threading.Event()

        def hangs() -> int:
            released.wait()
            ended.set()
            return 1

        quick, late = bounded.results([lambda: 2, hangs], within_s=0.2)
        assert quick == 2
        assert isinstance(late, TimeoutError)
        released.set()
        assert ended.wait(30.0)


def probing(place: str | Path) -> Iterator[DatabaseProbe]:
    database = Database(place)
    yield SqlProbe(database)
    database.close()
