"""A shape of queries that has a name."""

from __future__ import annotations

from dataclasses import dataclass, field

from odfabric.model.metadata import TemporalTable

LAST = "max(a.event_time) AS event_time"


@dataclass(frozen=True)
class Shape:
    """`inputs` are letters of inputs.

    `more` are columns that all of them have beside the usual ones.
    """

    inputs: str
    text: str
    identity: tuple[str, ...] | None = None
    one_row_each: bool = False
    final_only: bool = False
    row_wise: bool = False
    steps: tuple[tuple[str, str], ...] = ()
    temporal: tuple[TemporalTable, ...] = ()
    more: dict[str, str] = field(default_factory=dict)
    times: str = "timestamp"


def groups(inputs: str, text: str, *identity: str, **more: object) -> Shape:
    """A shape with at most one row of each identity."""
    return Shape(inputs, text, identity, one_row_each=True, **more)  # type: ignore[arg-type]
