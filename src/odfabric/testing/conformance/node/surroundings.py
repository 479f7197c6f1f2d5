"""What every probe of a node's surroundings keeps.

Subclasses give a probe that answers and one whose other side is away.
"""

from __future__ import annotations

import pytest

from odfabric.errors import Determinate, NotFound
from odfabric.model.node.surroundings import FileState
from odfabric.ports.node.surroundings import Bounded, DatabaseProbe, RedisProbe, WorkspaceProbe


class WorkspaceProbeContract:
    """`probe` looks at a folder with one secret file, `node.token`, of mode 640."""

    @pytest.fixture
    def probe(self) -> WorkspaceProbe:
        raise NotImplementedError

    def test_it_tells_the_folder_its_room_and_the_secrets_that_are_there(self, probe: WorkspaceProbe) -> None:
        disk, folder = probe.disk(), probe.folder()
        assert 0 < disk.free_bytes <= disk.all_bytes
        assert 0 <= disk.free_inodes <= disk.inodes
        assert (folder.name, folder.is_own, folder.is_readable) == ("workspace", True, True)
        assert probe.secrets() == [FileState("node.token", 0o640, is_own=True, is_readable=True)]

    def test_a_try_to_write_leaves_nothing(self, probe: WorkspaceProbe) -> None:
        before = probe.secrets()
        probe.try_write()
        assert probe.secrets() == before


class AbsentWorkspaceContract:
    """`absent` looks at a folder that is not there."""

    @pytest.fixture
    def absent(self) -> WorkspaceProbe:
        raise NotImplementedError

    def test_it_is_told(self, absent: WorkspaceProbe) -> None:
        with pytest.raises(NotFound):
            absent.folder()
        with pytest.raises(Determinate):
            absent.try_write()
        with pytest.raises(Determinate):
            absent.disk()
        assert absent.secrets() == []


class DatabaseProbeContract:
    """`probe` sees a migrated database without datasets, `away` one that is down."""

    @pytest.fixture
    def probe(self) -> DatabaseProbe:
        raise NotImplementedError

    @pytest.fixture
    def away(self) -> DatabaseProbe:
        raise NotImplementedError

    def test_it_tells_versions_and_clocks(self, probe: DatabaseProbe) -> None:
        state = probe.look()
        assert state.version[0].isdecimal()
        assert state.revision == state.needed
        assert state.newest is None
        assert state.answer_s >= 0
        if state.now is not None:
            assert abs(state.now.epoch_ns - state.asked_at.epoch_ns) < 60 * 10**9

    def test_one_that_is_away_is_told(self, away: DatabaseProbe) -> None:
        with pytest.raises(Determinate):
            away.look()


class RedisProbeContract:
    """`probe` looks at a Redis as it comes, `away` at one that does not answer."""

    @pytest.fixture
    def probe(self) -> RedisProbe:
        raise NotImplementedError

    @pytest.fixture
    def away(self) -> RedisProbe:
        raise NotImplementedError

    def test_it_tells_version_and_eviction(self, probe: RedisProbe) -> None:
        state = probe.look()
        assert state.version[0].isdecimal()
        assert state.eviction == "noeviction"

    def test_one_that_is_away_is_told(self, away: RedisProbe) -> None:
        with pytest.raises(Determinate):
            away.look()


class BoundedContract:
    """Results and errors come in the order of the works."""

    @pytest.fixture
    def bounded(self) -> Bounded:
        raise NotImplementedError

    def test_what_works_return_and_raise_comes_in_order(self, bounded: Bounded) -> None:
        def fails() -> int:
            raise Determinate("away")

        first, second, third = bounded.results([lambda: 1, fails, lambda: 3], within_s=30.0)
        assert (first, third) == (1, 3)
        assert isinstance(second, Determinate)
