"""A consistent copy of a node's database, to load into another of any kind.

Values are as the database has them: what is sealed stays sealed. What is derived from chains (the search) is left out: a node makes it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

Row = Mapping[str, int | float | str | bytes | bool | None]
"""A row by names of columns."""


class DatabaseSnapshot(Protocol):
    """One state of the database, as long as its context is open."""

    @property
    def revision(self) -> str:
        """Which migrations it has."""

    @property
    def tables(self) -> Sequence[str]:
        """In an order in which rows can be loaded: what is referred to comes first."""

    def rows(self, table: str) -> Iterator[Row]:
        """All rows, lazily. Raises Determinate."""

    def sequences(self) -> Mapping[str, int]:
        """The last number given to a row, by table; numbers are never given twice."""


class DatabaseCopy(Protocol):
    """The database of a node."""

    def snapshot(self) -> AbstractContextManager[DatabaseSnapshot]:
        """Raises InvalidRequest without the tables of this release, Determinate."""

    def is_empty(self) -> bool:
        """Whether no table has rows, or there is no table. Raises Determinate."""

    def load(self, revision: str, tables: Iterable[tuple[str, Iterable[Row]]], sequences: Mapping[str, int]) -> None:
        """Make the tables of `revision`, insert all rows, then migrate to this release.

        All rows are inserted, or none. Raises AlreadyExists for a database that is not empty, InvalidRequest for a revision that this release
        does not know, Determinate, Indeterminate.
        """
