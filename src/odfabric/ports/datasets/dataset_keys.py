"""Private keys of datasets: made with the dataset, kept sealed beside its catalog entry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SealedKey:
    """A fresh Ed25519 key pair: the public half (32 bytes) and the private half encrypted for storage."""

    public: bytes
    sealed_private: bytes


class DatasetKeys(Protocol):
    """Makes key pairs. The private half never leaves an implementation in the clear."""

    def create(self) -> SealedKey:
        """A new key pair."""
