"""Private keys of datasets, sealed with the node's key.

Owns how a pair is made. Invariant: the private half is in the clear in this module only, and is bound to its public half. Not here:
the key file (`key_file`), the sealed form (`formats.secrets.sealed_form`), signing.
"""

from __future__ import annotations

from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from odfabric.adapters.local_fs.key_file import KeyFileSealing
from odfabric.model.identity import DatasetId
from odfabric.ports.datasets.dataset_keys import SealedKey
from odfabric.ports.node.clock import Entropy
from odfabric.ports.node.sealing import Sealing, dataset_key_context


class KeyFileDatasetKeys:
    """A DatasetKeys over a key file, or over the present sealing of this process."""

    def __init__(self, sealing: Path | Sealing, *, entropy: Entropy) -> None:
        self._sealing = KeyFileSealing(sealing, entropy=entropy) if isinstance(sealing, Path) else sealing
        self._entropy = entropy

    def create(self) -> SealedKey:
        """See the port.

        Raises Determinate, AccessDenied for a key file that others may read, Corrupt for a damaged one.
        """
        private = Ed25519PrivateKey.from_private_bytes(self._entropy.random_bytes(32))
        public = private.public_key().public_bytes_raw()
        context = dataset_key_context(DatasetId(public))
        return SealedKey(public, self._sealing.seal(private.private_bytes_raw(), context=context))
