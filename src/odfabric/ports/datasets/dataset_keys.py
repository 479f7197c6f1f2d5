"""Private keys of datasets, made with them, sealed beside their catalog entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from odfabric.model.identity import DatasetId


@dataclass(frozen=True, slots=True)
class SealedKey:
    """An Ed25519 key pair: 32-byte public half, encrypted private half."""

    public: bytes
    sealed_private: bytes


class DatasetKeys(Protocol):
    """Makes and uses key pairs.

    The private half leaves an implementation in the clear by `reveal` only. What is sealed is bound to its dataset. Reading what is sealed
    raises Corrupt if it does not open, AccessDenied for a key file that others may read, Determinate.
    """

    def create(self, dataset: DatasetId | None = None) -> SealedKey:
        """A new key pair.

        Of a new dataset, whose id is its public half, or another one for `dataset`.
        """

    def keep(self, dataset: DatasetId, private: bytes) -> SealedKey:
        """Seal a private half of 32 bytes that comes from elsewhere."""

    def public(self, dataset: DatasetId, sealed: bytes) -> bytes:
        """The public half of a sealed private one."""

    def sign(self, dataset: DatasetId, sealed: bytes, data: bytes) -> bytes:
        """The Ed25519 signature of `data`, 64 bytes."""

    def reveal(self, dataset: DatasetId, sealed: bytes) -> bytes:
        """The private half, for an export that its owner asked for."""
