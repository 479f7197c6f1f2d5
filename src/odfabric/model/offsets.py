"""Intervals of offsets: half-open in code, closed on the wire.

Owns the conversion between the two, so that no other module adds or subtracts one. Source: RFC-014.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.metadata import OffsetInterval

OFFSET_MAX = 2**63 - 2
"""The largest offset: slices hold signed 64-bit integers, and the next offset after it has to be one too."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Half-open range `[begin, end)` of record offsets; empty when equal."""

    begin: int
    end: int

    @classmethod
    def after(cls, prev_offset: int | None, new_offset: int | None) -> OffsetRange:
        """Records of `(prev, new]` as blocks state progress; `new_offset` None means none."""
        begin = 0 if prev_offset is None else prev_offset + 1
        return cls(begin, begin if new_offset is None else new_offset + 1)

    @classmethod
    def from_wire(cls, interval: OffsetInterval) -> OffsetRange:
        """From the closed interval of a data slice."""
        return cls(interval.start, interval.end + 1)

    def to_wire(self) -> OffsetInterval:
        """As the closed interval of a data slice.

        Raises ValueError if empty, which has no wire form.
        """
        if self.end <= self.begin:
            raise ValueError("an empty range has no closed form")
        return OffsetInterval(start=self.begin, end=self.end - 1)

    @property
    def rows(self) -> int:
        """How many offsets there are, also where `len` cannot say it."""
        return self.end - self.begin

    def __len__(self) -> int:
        return self.rows
