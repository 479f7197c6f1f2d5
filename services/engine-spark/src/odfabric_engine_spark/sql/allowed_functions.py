"""Allowed functions: the reviewed classification of all functions of Spark.

Owns `functions.json` (by the name in SQL) and `expressions.json` (by the class on the analysed plan). Invariant: what is in
neither list is refused, so a new release of Spark allows nothing new. `decided_on_the_plan` means that the arguments decide
(`analysed_plan_rules`). Not here: special forms of the grammar (`parsed_plan_rules`).
"""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path

from odfabric_engine_spark.sql.corrections.functions_of_other_engines import ELSEWHERE

NONE_OF_USERS = "there are no functions of users"
"""Beside what is said of a name that nobody knows."""

REASONS = {
    "random": ("it gives another result every time", "use a hash of columns, such as xxhash64(..) or sha2(..)"),
    "clock": ("it depends on the time at which the query runs", "use a column, or write the time as a literal"),
    "session": ("it depends on who or what runs the query", "write the value as a literal"),
    "physical": (
        "it depends on how rows are stored",
        "number the rows: row_number() over (partition by .. order by ..)",
    ),
    "code": ("it calls code", "write it as an expression of SQL"),
    "files": ("it can name files", "parse such texts before they are pushed"),
    "order": (
        "its result depends on the order of rows or on how they are partitioned",
        "use a function that sees all rows: count, percentile, sort_array(collect_list(..))",
    ),
    "type": ("the format has no column of its type", "use string, binary or timestamp"),
    "unreviewed": ("it has not been reviewed", "write it with other functions of Spark SQL"),
    "unknown": (
        "there is no such function, or it is not on the list of allowed ones",
        f"write it with other functions of Spark SQL: {NONE_OF_USERS}",
    ),
}
"""Reason ids of the data files: what a refusal says, and what to do instead."""

_QUANTILES = "percentile(.., 0.5) and percentile_disc(0.5) WITHIN GROUP (ORDER BY ..) are exact"
_DISTINCT = "count(DISTINCT ..) is exact, approx_count_distinct(..) does not depend on order"
_FREQUENT = "group by the value, count, and keep the first by row_number() over (partition by .. order by n desc)"
_INSTEAD = {
    "approx_percentile": _QUANTILES,
    "percentile_approx": _QUANTILES,
    "kll_": _QUANTILES,
    "hll_": _DISTINCT,
    "theta_": _DISTINCT,
    "tuple_": _DISTINCT,
    "approx_top_k": _FREQUENT,
    "input_file_": "write the name of the file into a column before it is pushed",
    "histogram_numeric": "group by width_bucket(.., least, greatest, number) and count",
    "vector_": "explode with posexplode(..), then sum or avg by the position",
    "sentences": "split(text, '[.!?]'), and split(.., ' ') of each",
    "aes_encrypt": "encrypt before rows are pushed",
}
"""What to do instead of certain functions, by their name or how it begins."""

_SIMILAR_MIN = 0.8
"""How much of two names is the same at least for one to be meant by the other: `upperr` is `upper`, `foo` is not `floor`."""


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

    def instead(self, name: str, reason: str) -> str | None:
        """What to do instead of a function that is refused for a reason."""
        of_name = (hint for begin, hint in _INSTEAD.items() if name.startswith(begin))
        return next(of_name, REASONS[reason][1])

    def elsewhere(self, name: str) -> str | None:
        """What Spark has for a name that other engines have."""
        return ELSEWHERE.get(name)

    def similar(self, name: str) -> str | None:
        """An allowed name that was perhaps meant."""
        known = [*self.allowed, *self.decided_on_the_plan]
        found = difflib.get_close_matches(name, known, n=1, cutoff=_SIMILAR_MIN)
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
