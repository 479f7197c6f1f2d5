"""Private keys of datasets, sealed with the node's key.

Owns how a pair is made. Invariant: the private half is in the clear in this module only, and is bound to its dataset. Not here:
the key file (`key_file`), the sealed form (`formats.secrets.sealed_form`), signing.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from odfabric.adapters.local_fs.key_file import KeyFileSealing
from odfabric.errors import Corrupt
from odfabric.model.identity import DatasetId
from odfabric.ports.datasets.dataset_keys import SealedKey
from odfabric.ports.node.clock import Entropy
from odfabric.ports.node.sealing import Sealing, dataset_key_context

PRIVATE_BYTES = 32


class KeyFileDatasetKeys:
    """A DatasetKeys over a key file, or over the present sealing of this process."""

    def __init__(self, sealing: Path | Sealing, *, entropy: Entropy) -> None:
        self._sealing = KeyFileSealing(sealing, entropy=entropy) if isinstance(sealing, Path) else sealing
        self._entropy = entropy

    def create(self, dataset: DatasetId | None = None) -> SealedKey:
        """See the port.

        Raises Determinate, AccessDenied for a key file that others may read, Corrupt for a damaged one.
        """
        private = Ed25519PrivateKey.from_private_bytes(self._entropy.random_bytes(PRIVATE_BYTES))
        return self._sealed(dataset or DatasetId(private.public_key().public_bytes_raw()), private)

    def keep(self, dataset: DatasetId, private: bytes) -> SealedKey:
        """See the port."""
        return self._sealed(dataset, Ed25519PrivateKey.from_private_bytes(private))

    def public(self, dataset: DatasetId, sealed: bytes) -> bytes:
        """See the port."""
        return self._opened(dataset, sealed).public_key().public_bytes_raw()

    def sign(self, dataset: DatasetId, sealed: bytes, data: bytes) -> bytes:
        """See the port."""
        return self._opened(dataset, sealed).sign(data)

    def reveal(self, dataset: DatasetId, sealed: bytes) -> bytes:
        """See the port."""
        return self._opened(dataset, sealed).private_bytes_raw()

    def _sealed(self, dataset: DatasetId, private: Ed25519PrivateKey) -> SealedKey:
        sealed = self._sealing.seal(private.private_bytes_raw(), context=dataset_key_context(dataset))
        return SealedKey(private.public_key().public_bytes_raw(), sealed)

    def _opened(self, dataset: DatasetId, sealed: bytes) -> Ed25519PrivateKey:
        opened = self._sealing.open(sealed, context=dataset_key_context(dataset))
        if len(opened) != PRIVATE_BYTES:
            raise Corrupt("a sealed key of a dataset is not one", object_name=str(dataset))
        return Ed25519PrivateKey.from_private_bytes(opened)
