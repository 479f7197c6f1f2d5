"""Travelling portions of a snapshot: any holder fetches rows from the location.

Owns how batches are dealt out, and the portion's form as JSON. A portion names parts, so it lives as long as the version it was
cut from is held. Source: ADR 0014.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from odfabric_persist.encoding import batch_document, batch_of_document
from odfabric_persist.errors import UsageError
from odfabric_persist.state import Batch, Part


@dataclass(frozen=True, slots=True)
class Split:
    """A portion: some parts of some batches, at a time."""

    shard: str
    as_of: int
    batches: tuple[Batch, ...]

    def to_json(self) -> str:
        """Text for another process."""
        batches = [[batch.id, batch_document(batch, self.shard)] for batch in self.batches]
        return json.dumps({"shard": self.shard, "as_of": self.as_of, "batches": batches}, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Split:
        """Raises UsageError (`invalid-split`)."""
        try:
            document = json.loads(text)
            shard = str(document["shard"])
            batches = tuple(batch_of_document(name, value, shard) for name, value in document["batches"])
            return cls(shard, int(document["as_of"]), batches)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError("invalid-split", repr(error)) from error


def cut(shard: str, batches: tuple[Batch, ...], as_of: int, count: int) -> list[Split]:
    """Exactly `count` portions, parts dealt out so that rows are about even."""
    pieces = sorted(
        ((batch, part) for batch in batches for part in batch.parts), key=lambda piece: piece[1].rows, reverse=True
    )
    loads = [0] * count
    dealt: list[list[tuple[Batch, Part]]] = [[] for _ in range(count)]
    for batch, part in pieces:
        least = loads.index(min(loads))
        loads[least] += part.rows
        dealt[least].append((batch, part))
    return [Split(shard, as_of, tuple(replace(batch, runs=((part,),)) for batch, part in one)) for one in dealt]
