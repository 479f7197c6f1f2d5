"""What a collection would delete, in short, for people.

For those who want to know before, or why the disk fills.

Bounded in time and in what is remembered. Nothing is deleted. Not here: what is litter (`collect_objects`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from odfabric.model.identity import DatasetId
from odfabric.ports.node.clock import Clock
from odfabric.usecases.maintenance.collect_objects import CollectedPortion, LeftAlone, Litter

LOOK_S_MAX = 20.0
"""Longest look, in seconds."""
SHOWN_MAX = 100


@dataclass(slots=True)
class Surveyed:
    """Counts of objects and bytes; `largest` are the largest litter, largest first.

    `is_cut`: there was no time for all.
    """

    looked_at: int = 0
    objects: int = 0
    bytes: int = 0
    largest: list[Litter] = field(default_factory=list)
    left_alone: dict[DatasetId, LeftAlone] = field(default_factory=dict)
    is_cut: bool = False

    def add(self, portion: CollectedPortion) -> None:
        """Count a portion."""
        self.looked_at += portion.looked_at
        self.objects += len(portion.litter)
        self.bytes += sum(each.size for each in portion.litter)
        self.largest = sorted([*self.largest, *portion.litter], key=lambda each: (-each.size, each.key))[:SHOWN_MAX]
        if portion.left_alone is not None and portion.dataset is not None and len(self.left_alone) < SHOWN_MAX:
            self.left_alone[portion.dataset] = portion.left_alone


def survey_litter(portions: Iterable[CollectedPortion], *, clock: Clock) -> Surveyed:
    """The sum of a dry run, or of as much of it as fits into `LOOK_S_MAX`."""
    found, started = Surveyed(), clock.now()
    for portion in portions:
        found.add(portion)
        if (clock.now().epoch_ns - started.epoch_ns) / 1e9 > LOOK_S_MAX:
            found.is_cut = True
            break
    return found
