"""What a source does with data that its schema does not foresee."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class FieldContract(Enum):
    """What becomes of fields that no column is declared for."""

    DISCARD = "discard"
    """They are left out, and the answer names them."""
    FREEZE = "freeze"
    """The file is refused."""
    EVOLVE = "evolve"
    """Source and dataset get a column for each, which may be null."""


class WrongRows(Enum):
    """What becomes of a file some of whose rows cannot be read."""

    REFUSE = "refuse"
    """All of it is refused."""
    QUARANTINE = "quarantine"
    """These rows are kept in a dataset of their own, the others are taken in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedRows:
    """How many rows of an ingest were rejected, and their dataset's name at the time."""

    rows: int
    dataset: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IntakeRules:
    """Rules of one source.

    `contract` None: JSON leaves other fields out, a header must not have any. `shrink_max`: the largest share of its
    rows that a Snapshot may lose by one file, None as the node has it.
    """

    contract: FieldContract | None = None
    wrong_rows: WrongRows = WrongRows.REFUSE
    shrink_max: float | None = None
