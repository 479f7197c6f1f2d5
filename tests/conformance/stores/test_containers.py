"""Containers: functions and an engine's command line keep one contract.

Over a stand-in (`tests.support.engines.stand_in_engine`).
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from odfabric.adapters.container.engine import CliContainerSource, ContainerLimits
from odfabric.adapters.memory.sources.containers import MemoryContainers
from odfabric.errors import InvalidData
from odfabric.ports.sources.containers import ContainerAnswer, ContainerRun
from odfabric.testing.conformance.sources.containers import ContainerSourceContract
from tests.support.engines import stand_in_engine

IMAGES = {
    "fine": 'printf "%s" "$WORD"; echo v1 > /opt/odf/out/new-etag; touch /opt/odf/out/new-has-more-data',
    "quiet": "true",
    "broken": "echo wrong key >&2; exit 1",
}


class TestMemoryContainers(ContainerSourceContract):
    @pytest.fixture
    def containers(self) -> MemoryContainers:
        def fine(run: ContainerRun) -> tuple[bytes, ContainerAnswer]:
            data = run.environment["WORD"].encode()
            return data, ContainerAnswer(size=len(data), new_etag="v1", has_more=True)

        def broken(run: ContainerRun) -> tuple[bytes, ContainerAnswer]:
            raise InvalidData("wrong key")

        containers = MemoryContainers()
        containers.by_image = {"fine": fine, "quiet": lambda _: (b"", ContainerAnswer(size=0)), "broken": broken}
        return containers


class TestCliContainers(ContainerSourceContract):
    @pytest.fixture
    def containers(self, tmp_path: Path) -> CliContainerSource:
        folder = tmp_path / "engine"
        (folder / "images").mkdir(parents=True)
        for name, script in IMAGES.items():
            (folder / "images" / name).write_text(script)
        shutil.copy(stand_in_engine.__file__, folder / "stand_in.py")
        (folder / "engine").write_text(f'#!/bin/sh\nexec {sys.executable} -I {folder}/stand_in.py "$@"\n')
        (folder / "engine").chmod(0o755)
        return CliContainerSource(folder / "engine", list(IMAGES), ContainerLimits())
