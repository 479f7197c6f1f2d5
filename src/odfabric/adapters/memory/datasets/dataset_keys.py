"""Key pairs for tests: real Ed25519 keys from given randomness.

The private halves stay in the object.
"""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from odfabric.ports.datasets.dataset_keys import SealedKey
from odfabric.ports.node.clock import Entropy


class MemoryDatasetKeys:
    """A DatasetKeys whose sealed form is the number of the private half it keeps."""

    def __init__(self, entropy: Entropy) -> None:
        self._entropy = entropy
        self._private: list[Ed25519PrivateKey] = []

    def create(self) -> SealedKey:
        """See the port."""
        private = Ed25519PrivateKey.from_private_bytes(self._entropy.random_bytes(32))
        self._private.append(private)
        return SealedKey(private.public_key().public_bytes_raw(), len(self._private).to_bytes(8, "big"))
