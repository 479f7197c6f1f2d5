"""Multihash: a digest that names its algorithm.

Owns the value and its canonical text (base16 multibase). Reading other multibase texts is `formats.identifiers.multihash`.
Source: multiformats; specification, "Hash".
"""

from __future__ import annotations

from dataclasses import dataclass

SHA2_256 = 0x12
SHA3_256 = 0x16
ARROW0_SHA3_256 = 0x300016

DIGEST_BYTES_MAX = 32


def uvarint(value: int) -> bytes:
    """Unsigned LEB128 of a non-negative integer."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


@dataclass(frozen=True, slots=True, order=True)
class Multihash:
    """Codec number and digest bytes.

    Two multihashes are equal whatever text they were written in.
    """

    code: int
    digest: bytes

    def to_bytes(self) -> bytes:
        """Varint code, varint length, digest: the form inside blocks."""
        return uvarint(self.code) + uvarint(len(self.digest)) + self.digest

    def __str__(self) -> str:
        """Canonical text, e.g. `f1620...`; also the name of objects in storage."""
        return "f" + self.to_bytes().hex()

    @property
    def short(self) -> str:
        """Last eight characters, for display only."""
        return str(self)[-8:]


def sha3_256_multihash(digest: bytes) -> Multihash:
    """Wrap a SHA3-256 digest (32 bytes): block, physical and checkpoint hashes."""
    return Multihash(SHA3_256, digest)
