"""What a check of the node's surroundings found."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Outcome(Enum):
    """`warning`: works, but needs a look; `broken`: does not work, or not for long."""

    OK = "ok"
    WARNING = "warning"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One check's outcome: its name, what was seen, and a remedy.

    A command or setting that helps (None if nothing has to be done).

    Neither text holds a secret or a URL with credentials.
    """

    name: str
    outcome: Outcome
    seen: str
    remedy: str | None = None

    def to_value(self) -> dict[str, object]:
        """As JSON shows it."""
        return {"name": self.name, "outcome": self.outcome.value, "seen": self.seen, "remedy": self.remedy}
