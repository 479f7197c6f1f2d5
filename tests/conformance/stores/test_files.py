"""Exchange folders, polled files, preparation: memory and folders, one contract."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from odfabric.adapters.local_fs.archives import ArchiveLimits, ArchivePreparation
from odfabric.adapters.local_fs.exchange import FolderExchange
from odfabric.adapters.local_fs.poll_folder import PollFolder
from odfabric.adapters.memory.datasets.exchange import MemoryExchange
from odfabric.adapters.memory.sources.polling_files import MemoryPollingFiles
from odfabric.model.instant import Instant
from odfabric.ports.datasets.exchange import Exchange
from odfabric.ports.sources.polling_files import PollingFiles, SourcePreparation
from odfabric.testing.conformance.datasets.exchange import ExchangeContract
from odfabric.testing.conformance.examples import NOW
from odfabric.testing.conformance.sources.polling_files import (
    FILES_MAX,
    AddFile,
    PollingFilesContract,
    SourcePreparationContract,
)


class TestMemoryExchange(ExchangeContract):
    @pytest.fixture
    def exchange(self, tmp_path: Path) -> Exchange:
        return MemoryExchange(tmp_path / "exchange")


class TestFolderExchange(ExchangeContract):
    @pytest.fixture
    def exchange(self, tmp_path: Path) -> Iterator[Exchange]:
        exchange = FolderExchange(tmp_path / "exchange")
        yield exchange
        exchange.close()


class TestMemoryPollingFiles(PollingFilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> MemoryPollingFiles:
        return MemoryPollingFiles(tmp_path, files_max=FILES_MAX)

    @pytest.fixture
    def add_file(self, files: MemoryPollingFiles) -> AddFile:
        def add(name: str, data: bytes = b"data", *, modified_at: Instant = NOW) -> None:
            files.add(name, data, modified_at=modified_at)

        return add


class TestPollFolder(PollingFilesContract):
    @pytest.fixture
    def files(self, tmp_path: Path) -> PollingFiles:
        (tmp_path / "secret").write_bytes(b"secret")
        (tmp_path / "poll").mkdir()
        return PollFolder(tmp_path / "poll", files_max=FILES_MAX)

    @pytest.fixture
    def add_file(self, tmp_path: Path) -> AddFile:
        def add(name: str, data: bytes = b"data", *, modified_at: Instant = NOW) -> None:
            path = tmp_path / "poll" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
            os.utime(path, ns=(modified_at.epoch_ns, modified_at.epoch_ns))

        return add


class TestArchivePreparation(SourcePreparationContract):
    @pytest.fixture
    def preparation(self) -> SourcePreparation:
        return ArchivePreparation(ArchiveLimits())
