"""What Savepoints promises, as tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.model.identity import DatasetId
from odfabric.model.instant import NANOS_PER_SECOND, Instant
from odfabric.ports.sources.savepoints import Savepoints
from odfabric.testing.conformance.examples import NOW

BYTES_MAX = 1000
AGE_S_MAX = 60
ONE, TWO, THREE = (DatasetId(bytes([number]) * 32) for number in (1, 2, 3))


class SavepointsContract:
    """A subclass gives `savepoints` of BYTES_MAX and AGE_S_MAX."""

    @pytest.fixture
    def savepoints(self) -> Savepoints:
        raise NotImplementedError

    def keep(
        self, savepoints: Savepoints, folder: Path, dataset: DatasetId, data: bytes, *, step: str = "s", at_s: int = 0
    ) -> bool:
        body = folder / "fetched"
        body.write_bytes(data)
        return savepoints.keep(dataset, step, body, etag='"1"', last_modified=None, now=later(at_s))

    def kept(self, savepoints: Savepoints, dataset: DatasetId, *, step: str = "s", at_s: int = 0) -> bytes | None:
        found = savepoints.find(dataset, step, now=later(at_s))
        return None if found is None else found.path.read_bytes()

    def test_a_body_is_found_by_its_dataset_and_step(self, savepoints: Savepoints, tmp_path: Path) -> None:
        assert self.kept(savepoints, ONE) is None
        assert self.keep(savepoints, tmp_path, ONE, b"one")
        (tmp_path / "fetched").unlink()
        found = savepoints.find(ONE, "s", now=NOW)
        assert found is not None
        assert (found.path.read_bytes(), found.etag, found.last_modified, found.kept_at) == (b"one", '"1"', None, NOW)
        assert self.kept(savepoints, ONE, step="t") is None
        assert self.kept(savepoints, TWO) is None

    def test_a_dataset_has_one_body_and_may_lose_it(self, savepoints: Savepoints, tmp_path: Path) -> None:
        self.keep(savepoints, tmp_path, ONE, b"one", step="s")
        self.keep(savepoints, tmp_path, ONE, b"", step="t")
        assert (self.kept(savepoints, ONE, step="s"), self.kept(savepoints, ONE, step="t")) == (None, b"")
        savepoints.drop(ONE)
        savepoints.drop(ONE)
        assert self.kept(savepoints, ONE, step="t") is None

    def test_a_body_goes_after_its_time(self, savepoints: Savepoints, tmp_path: Path) -> None:
        self.keep(savepoints, tmp_path, ONE, b"one")
        assert self.kept(savepoints, ONE, at_s=AGE_S_MAX) == b"one"
        assert self.kept(savepoints, ONE, at_s=AGE_S_MAX + 1) is None

    def test_the_oldest_make_room(self, savepoints: Savepoints, tmp_path: Path) -> None:
        for number, dataset in enumerate((ONE, TWO)):
            assert self.keep(savepoints, tmp_path, dataset, b"x" * (BYTES_MAX // 2), at_s=number)
        assert self.kept(savepoints, ONE) is not None
        assert self.keep(savepoints, tmp_path, THREE, b"y", at_s=2)
        assert self.kept(savepoints, ONE) is None
        assert self.kept(savepoints, TWO) is not None
        assert self.kept(savepoints, THREE) == b"y"

    def test_what_is_too_large_is_not_kept_and_replaces_what_was(self, savepoints: Savepoints, tmp_path: Path) -> None:
        assert self.keep(savepoints, tmp_path, ONE, b"x" * BYTES_MAX)
        assert self.keep(savepoints, tmp_path, TWO, b"x" * (BYTES_MAX + 1)) is False
        assert self.kept(savepoints, ONE) is not None
        assert self.keep(savepoints, tmp_path, ONE, b"x" * (BYTES_MAX + 1)) is False
        assert self.kept(savepoints, ONE) is None


def later(seconds: int) -> Instant:
    """That many seconds after the suite's now."""
    return Instant(NOW.epoch_ns + seconds * NANOS_PER_SECOND)
