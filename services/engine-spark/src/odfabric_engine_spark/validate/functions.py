"""Which functions and expressions SQL may use: the reviewed classification of all that this release of Spark has.

Owns `functions.json` (by the name in SQL) and `expressions.json` (by the class on the analysed plan). Invariant: what is in
neither list is refused, so a new release of Spark allows nothing new. `decided_on_the_plan` means that the arguments decide
(`analysed`). Not here: special forms of the grammar (`parsed`).
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

REASONS = {
    "random": ("it gives another result every time", None),
    "clock": ("it depends on the time at which the query runs", "use a column, or write the time as a literal"),
    "session": ("it depends on who or what runs the query", "write the value as a literal"),
    "physical": ("it depends on how rows are stored", None),
    "code": ("it calls code", None),
    "files": ("it can name files", None),
    "order": ("its result depends on the order of rows or on how they are partitioned", None),
    "type": ("the format has no column of its type", "use string, binary or timestamp"),
    "unreviewed": ("it has not been reviewed", None),
    "unknown": ("there is no such function, or it is not on the list of allowed ones", None),
}
"""Reason ids of the data files: what a refusal says, and what to do instead."""


class Verdict(Enum):
    """What a list says of a name."""

    ALLOWED = "allowed"
    DECIDED_ON_THE_PLAN = "decided_on_the_plan"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Classification:
    """One of the two lists."""

    allowed: frozenset[str]
    decided_on_the_plan: frozenset[str]
    refused: dict[str, str]

    def verdict(self, name: str) -> tuple[Verdict, str]:
        """The verdict on a name, and the reason id of a refusal (else empty)."""
        if name in self.allowed:
            return Verdict.ALLOWED, ""
        if name in self.decided_on_the_plan:
            return Verdict.DECIDED_ON_THE_PLAN, ""
        return Verdict.REFUSED, self.refused.get(name, "unknown")

    def similar(self, name: str) -> str | None:
        """An allowed name that was perhaps meant."""
        found = difflib.get_close_matches(name, [*self.allowed, *self.decided_on_the_plan], n=1)
        return found[0] if found else None


@cache
def functions() -> Classification:
    """By function name, lower case."""
    return _load("functions.json")


@cache
def expression_classes() -> Classification:
    """By simple class name within Catalyst's package of expressions."""
    return _load("expressions.json")


def _load(file: str) -> Classification:
    data = json.loads(Path(__file__).with_name(file).read_text(encoding="utf-8"))
    refused = {name: reason for reason, names in data["refused"].items() for name in names}
    return Classification(frozenset(data["allowed"]), frozenset(data["decided_on_the_plan"]), refused)
