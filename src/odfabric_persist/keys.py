"""Names of blobs: of which shard one is, what it is, and when it was written.

Owns their form, `SHARD/part-TIME-CHANCE` and `SHARD/rollup-VERSION-TIME-CHANCE`, the time in milliseconds in hexadecimal digits. The
time only says what is old enough to be a leftover; nothing else depends on a clock.
"""

from __future__ import annotations

import re
import secrets
from dataclasses import dataclass

PART, ROLLUP = "/part-", "/rollup-"
_KEY = re.compile(r"(?P<shard>.+)/(?P<kind>part|rollup-\d+)-(?P<ms>[0-9a-f]{12,})-[0-9a-f]{16}", re.ASCII)


def part_key(shard: str, now_ms: int) -> str:
    """A new name for a part."""
    return f"{shard}{PART}{now_ms:012x}-{secrets.token_hex(8)}"


def rollup_key(shard: str, seqno: int, now_ms: int) -> str:
    """A new name for a rollup."""
    return f"{shard}{ROLLUP}{seqno}-{now_ms:012x}-{secrets.token_hex(8)}"


@dataclass(frozen=True, slots=True)
class BlobName:
    """What the key of a blob says."""

    shard: str
    is_part: bool
    written_ms: int


def parse_key(key: str) -> BlobName | None:
    """None for a key that is not of this library."""
    found = _KEY.fullmatch(key)
    if found is None:
        return None
    return BlobName(found["shard"], found["kind"] == "part", int(found["ms"], 16))
