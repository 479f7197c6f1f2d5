"""Table functions over datasets as values: calls in a query, and what they give.

Owns nouns only. A call is known by its name and its literal arguments: equal calls are one table. Source: docs/reference/time.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from odfabric.model.instant import Instant


@dataclass(frozen=True, slots=True)
class TableCall:
    """A call: the name in small letters, the arguments as texts without quotes."""

    name: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(repr(each) for each in self.arguments)})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Projection:
    """Rows in the place of records.

    With `keys` the last record of each key unless it withdraws its row, else additions less withdrawals; `as_of`: of what had
    happened by then. `rows_path` is a Parquet file in the exchange folder that has these rows already, without offset, op and system
    time: there are no slices then, and a query that reads one of these columns is not run (`QueryResult.wants_records`).
    """

    keys: tuple[str, ...] = ()
    as_of: Instant | None = None
    rows_path: str | None = None


@dataclass(frozen=True, slots=True)
class CallRefusal:
    """Why a call gives no table, and what to write instead. Reported at its place."""

    message: str
    hint: str
