"""Key pairs of datasets: the private half is in the sealed form and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from odfabric.adapters.local_fs.dataset_keys import KeyFileDatasetKeys
from odfabric.adapters.local_fs.key_file import KeyFileSealing
from odfabric.adapters.memory.node.clock import SeededEntropy
from odfabric.errors import Corrupt
from odfabric.model.identity import DatasetId
from odfabric.ports.node.sealing import dataset_key_context


def test_the_private_half_is_in_the_sealed_form_and_only_there(tmp_path: Path) -> None:
    sealing = KeyFileSealing(tmp_path / "node.key", entropy=SeededEntropy(1))
    keys = KeyFileDatasetKeys(sealing, entropy=SeededEntropy(2))
    first, second = keys.create(), keys.create()
    private = sealing.open(first.sealed_private, context=dataset_key_context(DatasetId(first.public)))
    assert Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw() == first.public
    assert private not in first.sealed_private
    with pytest.raises(Corrupt):
        sealing.open(first.sealed_private, context=dataset_key_context(DatasetId(second.public)))


def test_a_path_is_enough(tmp_path: Path) -> None:
    made = KeyFileDatasetKeys(tmp_path / "node.key", entropy=SeededEntropy(1)).create()
    sealing = KeyFileSealing(tmp_path / "node.key", entropy=SeededEntropy(2))
    assert len(sealing.open(made.sealed_private, context=dataset_key_context(DatasetId(made.public)))) == 32
