"""Bodies of failed pulls: memory and a folder keep one contract."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.savepoints import FolderSavepoints
from odfabric.adapters.memory.sources.savepoints import MemorySavepoints
from odfabric.errors import Determinate
from odfabric.ports.sources.savepoints import Savepoints
from odfabric.testing.conformance.examples import NOW
from odfabric.testing.conformance.sources.savepoints import AGE_S_MAX, BYTES_MAX, ONE, TWO, SavepointsContract, later


class TestMemorySavepoints(SavepointsContract):
    @pytest.fixture
    def savepoints(self, tmp_path: Path) -> Savepoints:
        return MemorySavepoints(tmp_path, bytes_max=BYTES_MAX, age_s_max=AGE_S_MAX)


class TestFolderSavepoints(SavepointsContract):
    @pytest.fixture
    def root(self, tmp_path: Path) -> Path:
        return tmp_path / "savepoints"

    @pytest.fixture
    def savepoints(self, root: Path) -> FolderSavepoints:
        return FolderSavepoints(root, bytes_max=BYTES_MAX, age_s_max=AGE_S_MAX)

    def test_only_their_owner_reads_them(self, savepoints: FolderSavepoints, root: Path, tmp_path: Path) -> None:
        self.keep(savepoints, tmp_path, ONE, b"one")
        modes = {stat.S_IMODE(path.stat().st_mode) for path in root.iterdir()}
        assert modes == {0o600}
        assert stat.S_IMODE(root.stat().st_mode) & 0o077 == 0

    def test_another_process_finds_it_and_house_keeping_removes_it(
        self, savepoints: FolderSavepoints, root: Path, tmp_path: Path
    ) -> None:
        self.keep(savepoints, tmp_path, ONE, b"one")
        self.keep(savepoints, tmp_path, TWO, b"two", at_s=1)
        other = FolderSavepoints(root, bytes_max=BYTES_MAX, age_s_max=AGE_S_MAX)
        assert self.kept(other, ONE) == b"one"
        assert (other.sweep(NOW), other.sweep(later(AGE_S_MAX + 1)), other.sweep(later(AGE_S_MAX + 1))) == (0, 1, 0)
        assert [path.suffix for path in sorted(root.iterdir())] == [".body", ".json"]

    @pytest.mark.parametrize("broken", [b"", b"[]", b"{", b'{"step": "s"}', b'{"step": "s", "keptAt": 1, "size": 99}'])
    def test_a_damaged_description_finds_nothing(
        self, savepoints: FolderSavepoints, root: Path, tmp_path: Path, broken: bytes
    ) -> None:
        self.keep(savepoints, tmp_path, ONE, b"one")
        (description,) = root.glob("*.json")
        description.write_bytes(broken)
        assert self.kept(savepoints, ONE) is None
        assert self.keep(savepoints, tmp_path, ONE, b"again")
        assert self.kept(savepoints, ONE) == b"again"

    def test_what_a_dead_process_left_makes_room(
        self, savepoints: FolderSavepoints, root: Path, tmp_path: Path
    ) -> None:
        root.mkdir(mode=0o700)
        (root / f"{TWO.multibase}.body.part").write_bytes(b"x" * BYTES_MAX)
        assert self.keep(savepoints, tmp_path, ONE, b"one")
        assert savepoints.sweep(NOW) == 0
        assert not (root / f"{TWO.multibase}.body.part").exists()

    def test_a_folder_that_cannot_be_written_is_a_failure_of_the_moment(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"")
        savepoints = FolderSavepoints(tmp_path / "file" / "below", bytes_max=BYTES_MAX, age_s_max=AGE_S_MAX)
        with pytest.raises(Determinate):
            self.keep(savepoints, tmp_path, ONE, b"one")
        assert sorted(os.listdir(tmp_path)) == ["fetched", "file"]
