"""What Clock, Entropy and DatasetKeys promise, as tests."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from odfabric.model.instant import Instant
from odfabric.ports.datasets.dataset_keys import DatasetKeys
from odfabric.ports.node.clock import Clock, Entropy


class ClockContract:
    """A subclass gives `clock`."""

    @pytest.fixture
    def clock(self) -> Clock:
        raise NotImplementedError

    def test_time_is_of_this_century_and_does_not_go_back(self, clock: Clock) -> None:
        looks = [clock.now() for _ in range(100)]
        assert looks == sorted(looks)
        assert Instant.parse("2020-01-01T00:00:00Z") < looks[0] < Instant.parse("2100-01-01T00:00:00Z")


class EntropyContract:
    """A subclass gives `entropy`."""

    @pytest.fixture
    def entropy(self) -> Entropy:
        raise NotImplementedError

    def test_bytes_are_as_many_as_asked_for_and_never_the_same(self, entropy: Entropy) -> None:
        assert [len(entropy.random_bytes(count)) for count in (0, 1, 16, 1000)] == [0, 1, 16, 1000]
        assert len({entropy.random_bytes(16) for _ in range(1000)}) == 1000


class DatasetKeysContract:
    """A subclass gives `keys`."""

    @pytest.fixture
    def keys(self) -> DatasetKeys:
        raise NotImplementedError

    def test_each_pair_is_new_and_its_public_half_a_key(self, keys: DatasetKeys) -> None:
        pairs = [keys.create() for _ in range(10)]
        assert len({pair.public for pair in pairs}) == len({pair.sealed_private for pair in pairs}) == 10
        for pair in pairs:
            assert len(pair.public) == 32
            Ed25519PublicKey.from_public_bytes(pair.public)
