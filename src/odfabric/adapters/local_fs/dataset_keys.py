"""Private keys of datasets, sealed with a key file.

Owns the key file and the sealed form: version (1 byte), which key file (8), nonce (12), ChaCha20-Poly1305 of the private half with
the public half as associated data. Invariant: the key file is durable before anything is sealed with it, is never replaced and
may be read by its owner only. Not here: signing. Source: RULINGS 8.
"""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from odfabric.adapters.local_fs.file_lock import held_lock
from odfabric.errors import AccessDenied, Corrupt, Determinate
from odfabric.ports.clock import Entropy
from odfabric.ports.dataset_keys import SealedKey
from odfabric_persist.location.durable import sync_folder

VERSION = b"\x01"
KEY_FILE_BYTES = 32
KEY_ID_BYTES = 8
NONCE_BYTES = 12
_LOCK_WAIT_S_MAX = 10.0


class KeyFileDatasetKeys:
    """A DatasetKeys; the key file is made when it is first needed."""

    def __init__(self, key_file: Path, *, entropy: Entropy) -> None:
        self._key_file = key_file
        self._entropy = entropy

    def create(self) -> SealedKey:
        """See the port. Raises Determinate, AccessDenied for a key file that others may read, Corrupt for a damaged one."""
        sealing_key = self._sealing_key()
        private = Ed25519PrivateKey.from_private_bytes(self._entropy.random_bytes(32))
        public = private.public_key().public_bytes_raw()
        nonce = self._entropy.random_bytes(NONCE_BYTES)
        sealed = ChaCha20Poly1305(sealing_key).encrypt(nonce, private.private_bytes_raw(), public)
        return SealedKey(public, VERSION + key_id(sealing_key) + nonce + sealed)

    def _sealing_key(self) -> bytes:
        try:
            if not self._key_file.exists():
                self._make()
            with self._key_file.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode
                data = file.read(KEY_FILE_BYTES + 1)
        except OSError as error:
            raise Determinate(f"the key file cannot be used: {error.strerror}") from error
        if stat.S_IMODE(mode) & (stat.S_IRWXG | stat.S_IRWXO):
            raise AccessDenied("others may read the key file", hint=f"chmod 600 {self._key_file.name}")
        if len(data) != KEY_FILE_BYTES:
            raise Corrupt("the key file is damaged", object_name=self._key_file.name)
        return data

    def _make(self) -> None:
        # Under a lock, so that of several processes one makes the key; by renaming, so that it is whole or absent.
        with held_lock(self._key_file.with_name(f".{self._key_file.name}.lock"), wait_s_max=_LOCK_WAIT_S_MAX):
            if self._key_file.exists():
                return
            pending = self._key_file.with_name(f".{self._key_file.name}.pending")
            pending.unlink(missing_ok=True)
            opened = os.open(pending, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(opened, "wb") as file:
                file.write(self._entropy.random_bytes(KEY_FILE_BYTES))
                file.flush()
                os.fsync(file.fileno())
            pending.rename(self._key_file)
            sync_folder(self._key_file.parent)


def key_id(sealing_key: bytes) -> bytes:
    """Which key file sealed something."""
    return hashlib.sha3_256(sealing_key).digest()[:KEY_ID_BYTES]
