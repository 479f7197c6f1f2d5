"""What ContainerSource promises, as tests.

The images `fine`, `quiet` and `broken` are permitted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.errors import InvalidData, InvalidManifest
from odfabric.ports.sources.containers import ContainerAnswer, ContainerRun, ContainerSource


class ContainerSourceContract:
    """A subclass has the fixture `containers`.

    `fine` prints the variable WORD and writes the etag v1 and that there is more; `quiet` does nothing; `broken` says "wrong key" and fails.
    """

    @pytest.fixture
    def containers(self) -> ContainerSource:
        """The adapter under test."""
        raise NotImplementedError

    def test_output_and_files_come_back(self, containers: ContainerSource, tmp_path: Path) -> None:
        run = ContainerRun(image="fine", environment={"WORD": "a b"})
        assert containers.fetch(run, tmp_path / "into") == ContainerAnswer(size=3, new_etag="v1", has_more=True)
        assert (tmp_path / "into").read_bytes() == b"a b"

    def test_nothing_printed_is_an_empty_file(self, containers: ContainerSource, tmp_path: Path) -> None:
        run = ContainerRun(image="quiet", environment={})
        assert containers.fetch(run, tmp_path / "into") == ContainerAnswer(size=0)
        assert (tmp_path / "into").read_bytes() == b""

    def test_a_failure_says_why_and_leaves_no_file(self, containers: ContainerSource, tmp_path: Path) -> None:
        with pytest.raises(InvalidData, match="wrong key"):
            containers.fetch(ContainerRun(image="broken", environment={}), tmp_path / "into")
        assert not (tmp_path / "into").exists()

    def test_other_images_are_refused(self, containers: ContainerSource, tmp_path: Path) -> None:
        with pytest.raises(InvalidManifest):
            containers.fetch(ContainerRun(image="other", environment={}), tmp_path / "into")
        assert not (tmp_path / "into").exists()
