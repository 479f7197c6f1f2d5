"""Moments on the two time axes of a dataset.

Owns the nouns only. The system time axis says when something became known: its moments are times or blocks, by hash or by number. The event
time axis says when something happened: its moments are times. Source: docs/reference/time.md.
"""

from __future__ import annotations

from typing import TypeAlias

from odfabric.model.instant import Instant
from odfabric.model.multihash import Multihash

SystemMoment: TypeAlias = Instant | Multihash | int
"""A time means the last block at or before it, a hash or a sequence number means that block."""
