"""What PreparePrograms promises, as tests.

The programs `upper` and `fail` are permitted.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.errors import InvalidData, InvalidManifest
from odfabric.ports.sources.programs import PreparePrograms


class PrepareProgramsContract:
    """A subclass has the fixture `programs`: `upper` and `fail TEXT`.

    `upper` writes its input in capitals, `fail TEXT` prints a text and fails.
    """

    @pytest.fixture
    def programs(self) -> PreparePrograms:
        """The adapter under test."""
        raise NotImplementedError

    @pytest.fixture
    def source(self, tmp_path: Path) -> Path:
        """A file to be prepared."""
        path = tmp_path / "source"
        path.write_bytes(b"a\n\0\xff")
        return path

    def test_output_becomes_the_file(self, programs: PreparePrograms, source: Path, tmp_path: Path) -> None:
        programs.run(["upper"], source, tmp_path / "into")
        assert (tmp_path / "into").read_bytes() == b"A\n\0\xff"

    def test_a_failure_says_why_and_leaves_no_file(
        self, programs: PreparePrograms, source: Path, tmp_path: Path
    ) -> None:
        with pytest.raises(InvalidData, match="line 7 is wrong"):
            programs.run(["fail", "line 7 is wrong"], source, tmp_path / "into")
        assert not (tmp_path / "into").exists()

    @pytest.mark.parametrize("command", [[], ["rm"], ["upper "]])
    def test_other_programs_are_refused(
        self, programs: PreparePrograms, source: Path, tmp_path: Path, command: list[str]
    ) -> None:
        with pytest.raises(InvalidManifest):
            programs.run(command, source, tmp_path / "into")
        assert not (tmp_path / "into").exists()
