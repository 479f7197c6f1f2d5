"""Programs that prepare data: functions and confined processes keep one contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.adapters.memory.sources.programs import MemoryPrograms
from odfabric.adapters.programs.confined import ConfinedPrograms, ProgramLimits
from odfabric.testing.conformance.sources.programs import PrepareProgramsContract


class TestMemoryPrograms(PrepareProgramsContract):
    @pytest.fixture
    def programs(self) -> MemoryPrograms:
        def fail(arguments: object, _: bytes) -> bytes:
            raise ValueError(str(arguments))

        programs = MemoryPrograms()
        programs.by_name = {"upper": lambda _, data: data.upper(), "fail": fail}
        return programs


class TestConfinedPrograms(PrepareProgramsContract):
    @pytest.fixture
    def programs(self, tmp_path: Path) -> ConfinedPrograms:
        for name, script in {"upper": "exec tr a-z A-Z", "fail": 'echo "$1" >&2; exit 1'}.items():
            (tmp_path / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
            (tmp_path / name).chmod(0o755)
        return ConfinedPrograms([str(tmp_path / "upper"), str(tmp_path / "fail")], ProgramLimits())
