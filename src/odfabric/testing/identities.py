"""Reproducible dataset identities for tests.

Owns the seeded generator that the reference's tests use, so that identities printed in vectors can be made again. The
bytes are raw generator output (xoshiro256++), not a key pair: nothing can be signed with them.
"""

from __future__ import annotations

import struct

from odfabric.model.identity import DatasetId

SEED_BYTES_MAX = 32
_MASK = (1 << 64) - 1


def seeded_dataset_id(seed: bytes) -> DatasetId:
    """The identity of a seed of at most 32 bytes. Raises ValueError for a longer one."""
    if len(seed) > SEED_BYTES_MAX:
        raise ValueError(f"a seed has at most {SEED_BYTES_MAX} bytes, not {len(seed)}")
    state = list(struct.unpack("<4Q", seed.ljust(SEED_BYTES_MAX, b"\0")))
    return DatasetId(struct.pack("<4Q", *(_next(state) for _ in range(4))))


def _next(state: list[int]) -> int:
    result = (_rotl((state[0] + state[3]) & _MASK, 23) + state[0]) & _MASK
    shifted = state[1] << 17 & _MASK
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = _rotl(state[3], 45)
    return result


def _rotl(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK
