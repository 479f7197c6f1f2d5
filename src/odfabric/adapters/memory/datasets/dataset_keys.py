"""Key pairs for tests: real Ed25519 keys from given randomness.

The private halves stay in the object.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from odfabric.errors import Corrupt
from odfabric.model.identity import DatasetId
from odfabric.ports.datasets.dataset_keys import SealedKey
from odfabric.ports.node.clock import Entropy


class MemoryDatasetKeys:
    """A DatasetKeys whose sealed form is the number of the private half it keeps."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._private: list[tuple[DatasetId, Ed25519PrivateKey]] = []

    def create(self, dataset: DatasetId | None = None) -> SealedKey:
        """See the port."""
        return self.keep(dataset, self._entropy.random_bytes(32))

    def keep(self, dataset: DatasetId | None, private: bytes) -> SealedKey:
        """See the port."""
        pair = Ed25519PrivateKey.from_private_bytes(private)
        public = pair.public_key().public_bytes_raw()
        self._private.append((dataset or DatasetId(public), pair))
        return SealedKey(public, len(self._private).to_bytes(8, "big"))

    def public(self, dataset: DatasetId, sealed: bytes) -> bytes:
        """See the port."""
        return self._opened(dataset, sealed).public_key().public_bytes_raw()

    def sign(self, dataset: DatasetId, sealed: bytes, data: bytes) -> bytes:
        """See the port."""
        return self._opened(dataset, sealed).sign(data)

    def reveal(self, dataset: DatasetId, sealed: bytes) -> bytes:
        """See the port."""
        return self._opened(dataset, sealed).private_bytes_raw()

    def _opened(self, dataset: DatasetId, sealed: bytes) -> Ed25519PrivateKey:
        number = int.from_bytes(sealed, "big")
        if len(sealed) != 8 or not 0 < number <= len(self._private) or self._private[number - 1][0] != dataset:
            raise Corrupt("a sealed key of a dataset does not open", object_name=str(dataset))
        return self._private[number - 1][1]
