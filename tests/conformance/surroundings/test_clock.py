"""Time, chance and keys: given ones and those of the machine keep one contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from odfabric.adapters.local_fs.dataset_keys import KeyFileDatasetKeys
from odfabric.adapters.memory.datasets.dataset_keys import MemoryDatasetKeys
from odfabric.adapters.memory.node.clock import SeededEntropy, SettableClock
from odfabric.adapters.system.clock import SystemClock, SystemEntropy
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.node.clock import Clock, Entropy
from odfabric.testing.conformance.examples import NOW
from odfabric.testing.conformance.node.clock import ClockContract, DatasetKeysContract, EntropyContract


class TestSystemClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return SystemClock()


class TestSettableClock(ClockContract):
    @pytest.fixture
    def clock(self) -> Clock:
        return SettableClock(NOW, step_ms=1)


class TestSystemEntropy(EntropyContract):
    @pytest.fixture
    def entropy(self) -> Entropy:
        return SystemEntropy()


class TestSeededEntropy(EntropyContract):
    @pytest.fixture
    def entropy(self) -> Entropy:
        return SeededEntropy(7)


class TestKeyFileDatasetKeys(DatasetKeysContract):
    @pytest.fixture
    def keys(self, tmp_path: Path) -> DatasetKeys:
        return KeyFileDatasetKeys(tmp_path / "dataset.key", entropy=SystemEntropy())


class TestMemoryDatasetKeys(DatasetKeysContract):
    @pytest.fixture
    def keys(self) -> DatasetKeys:
        return MemoryDatasetKeys(SeededEntropy(7))
