"""Private keys of datasets, made with them, sealed beside their catalog entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class SealedKey:
    """A fresh Ed25519 key pair: 32-byte public half, encrypted private half."""

    public: bytes
    sealed_private: bytes


class DatasetKeys(Protocol):
    """Makes key pairs. The private half never leaves an implementation in the clear."""

    def create(self) -> SealedKey:
        """A new key pair."""
