"""How much the demo shows: all of it in minutes, or what a node is in about one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from odfabric.cli.demo import manifests


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """Arrivals by file name with months, a late airline's month, datasets by name."""

    arrivals: Mapping[str, range]
    late_month: int
    datasets: Mapping[str, str]

    @property
    def is_whole(self) -> bool:
        """Whether files are pushed too, and a second node takes a copy."""
        return self.datasets == manifests.ALL


WHOLE = Extent(
    arrivals={
        "flights-1.zip": range(1, 4),
        "flights-2.zip": range(4, 7),
        "flights-3.zip": range(7, 10),
        "flights-4.zip": range(10, 13),
    },
    late_month=6,
    datasets=manifests.ALL,
)
SHORT = Extent(
    arrivals={"flights-1.zip": range(1, 2)},
    late_month=1,
    datasets={name: text for name, text in manifests.ALL.items() if name.startswith("flights")},
)
