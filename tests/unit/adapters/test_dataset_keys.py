"""The key file and what is sealed with it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from odfabric.adapters.local_fs.dataset_keys import KEY_ID_BYTES, NONCE_BYTES, VERSION, KeyFileDatasetKeys, key_id
from odfabric.adapters.memory.clock import SeededEntropy
from odfabric.adapters.system.clock import SystemEntropy
from odfabric.errors import AccessDenied, Corrupt, Determinate
from odfabric.testing.conformance.together import outcomes_of_processes, outcomes_of_threads


def private_half(key_file: Path, sealed: bytes, public: bytes) -> bytes:
    """What the sealed form says, read as its description says."""
    sealing_key = key_file.read_bytes()
    assert sealed.startswith(VERSION + key_id(sealing_key))
    at = len(VERSION) + KEY_ID_BYTES
    nonce, rest = sealed[at : at + NONCE_BYTES], sealed[at + NONCE_BYTES :]
    return ChaCha20Poly1305(sealing_key).decrypt(nonce, rest, public)


def test_the_private_half_is_in_the_sealed_form_and_only_there(tmp_path: Path) -> None:
    key_file = tmp_path / "dataset.key"
    keys = KeyFileDatasetKeys(key_file, entropy=SeededEntropy(1))
    first, second = keys.create(), keys.create()
    private = private_half(key_file, first.sealed_private, first.public)
    assert Ed25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw() == first.public
    assert private not in first.sealed_private
    with pytest.raises(InvalidTag):
        private_half(key_file, first.sealed_private, second.public)


def test_the_key_file_is_for_its_owner_and_stays(tmp_path: Path) -> None:
    key_file = tmp_path / "dataset.key"
    KeyFileDatasetKeys(key_file, entropy=SystemEntropy()).create()
    content = key_file.read_bytes()
    assert os.stat(key_file).st_mode & 0o777 == 0o600
    assert len(content) == 32
    KeyFileDatasetKeys(key_file, entropy=SystemEntropy()).create()
    assert key_file.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == ["dataset.key"]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o644])
def test_a_key_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    key_file = tmp_path / "dataset.key"
    key_file.write_bytes(bytes(32))
    key_file.chmod(mode)
    with pytest.raises(AccessDenied, match=r"chmod 600 dataset\.key"):
        KeyFileDatasetKeys(key_file, entropy=SystemEntropy()).create()


@pytest.mark.parametrize("size", [0, 31, 33, 1000])
def test_a_damaged_key_file_is_alarming(tmp_path: Path, size: int) -> None:
    key_file = tmp_path / "dataset.key"
    key_file.write_bytes(bytes(size))
    key_file.chmod(0o600)
    with pytest.raises(Corrupt):
        KeyFileDatasetKeys(key_file, entropy=SystemEntropy()).create()
    assert key_file.stat().st_size == size


def test_what_a_dead_maker_left_does_no_harm(tmp_path: Path) -> None:
    (tmp_path / ".dataset.key.pending").write_bytes(b"half")
    (tmp_path / ".dataset.key.lock").write_bytes(b"")
    KeyFileDatasetKeys(tmp_path / "dataset.key", entropy=SystemEntropy()).create()
    assert [path.name for path in tmp_path.iterdir()] == ["dataset.key"]


def test_a_folder_that_is_not_there_is_an_outside_failure(tmp_path: Path) -> None:
    with pytest.raises(Determinate):
        KeyFileDatasetKeys(tmp_path / "nothing" / "dataset.key", entropy=SystemEntropy()).create()


def test_racing_threads_seal_with_one_key(tmp_path: Path) -> None:
    key_file = tmp_path / "dataset.key"
    sealed = outcomes_of_threads(
        lambda _: KeyFileDatasetKeys(key_file, entropy=SystemEntropy()).create().sealed_private[1:9].hex()
    )
    assert {str(identity) for identity in sealed} == {key_id(key_file.read_bytes()).hex()}


class OpenKeys:
    """Opens the keys of a folder in another process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self) -> KeyFileDatasetKeys:
        return KeyFileDatasetKeys(self.folder / "dataset.key", entropy=SystemEntropy())


def sealing_key_of(keys: KeyFileDatasetKeys, number: int) -> str:
    return keys.create().sealed_private[1:9].hex()


def test_racing_processes_seal_with_one_key(tmp_path: Path) -> None:
    used = outcomes_of_processes(OpenKeys(tmp_path), sealing_key_of)
    assert set(used) == {key_id((tmp_path / "dataset.key").read_bytes()).hex()}
