"""The result of one check of a release."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """What was checked, whether it is right, and what was found; `remedy` says what to do if it is wrong."""

    name: str
    ok: bool
    found: str
    remedy: str = ""

    def __str__(self) -> str:
        """One line, for people."""
        line = f"{'ok    ' if self.ok else 'not ok'}  {self.name}: {self.found}"
        return line if self.ok or not self.remedy else f"{line}. {self.remedy}"


def listed(names: list[str], shown_max: int = 5) -> str:
    """The first of some names, and how many more there are."""
    more = len(names) - shown_max
    return ", ".join(names[:shown_max]) + (f" and {more} more" if more > 0 else "")
