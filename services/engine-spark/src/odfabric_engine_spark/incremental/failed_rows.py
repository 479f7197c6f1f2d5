"""The rows on which an expression failed, among many that were computed together.

Owns the search for them: parts of the rows are computed again, without what is not needed for the failure. Invariant: what is told is
the failure of rows that were computed alone; where no part of the rows fails by itself, all of them are told. Where a row fails by
itself it costs about as much as computing the rows twice, and two jobs for each halving. Not here: what a failure says (`failures`), when a failure is final (`execute`).
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidData, OdfError, Place
from odfabric_engine_spark.failures import as_odf_error
from odfabric_engine_spark.validate.refusal import data_problem

ResultT = TypeVar("ResultT")
Computation = Callable[[Sequence[pa.Table]], object]

_TRIES_MAX = 100
"""How often rows of a leaf are computed again, about."""
_ROW_CHARACTERS_MAX = 200
_VALUE_CHARACTERS_MAX = 60


@dataclass(frozen=True, slots=True)
class Described:
    """What rows are called: by the input that they are of, "" for rows of a query's own, and by their first columns.

    `place_of` tells where a single row stands in a file.
    """

    alias: str
    columns: tuple[str, ...]
    place_of: Callable[[pa.Table], Place] | None = None


class FailedRows(Exception):
    """An expression failed on rows; which of them is looked for when it is told."""

    def __init__(
        self, error: PySparkException | Py4JError, search: Callable[[Callable[[], None]], BaseException]
    ) -> None:
        """`search` gives what is told; its argument raises when there is no more time."""
        super().__init__(str(error))
        self.error = error
        self._search = search

    def told(self, check: Callable[[], None]) -> BaseException:
        """The failure of as few rows as possible, which it names; `check` raises when there is no more time to look for them.

        Raises failures of another kind, such as those of the machine.
        """
        return self._search(check)


def computed_over(
    compute: Callable[[Sequence[pa.Table]], ResultT],
    leaves: Sequence[pa.Table],
    described: Sequence[Described],
) -> ResultT:
    """What is computed of the rows of some leaves. Raises FailedRows where rows are to blame, and else what `compute` raises."""
    try:
        return compute(leaves)
    except (PySparkException, Py4JError) as error:
        if not _is_of_data(error):
            raise
        raise FailedRows(error, _Fewest(error, compute, list(leaves), described).told) from error


@contextmanager
def found_again(compute: Callable[[], object]) -> Iterator[None]:
    """Work of which rows are not at hand. Where rows are to blame, `compute` does the same with rows at hand when it is told."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if not _is_of_data(error):
            raise
        known = error

        def search(check: Callable[[], None]) -> BaseException:
            try:
                compute()
            except FailedRows as found:
                return found.told(check)
            except OdfError:
                pass  # no time is left, or memory
            return data_problem(known)

        raise FailedRows(error, search) from error


class _Fewest:
    """The fewest rows of some leaves that fail, as far as they have been looked for."""

    def __init__(
        self, error: BaseException, compute: Computation, leaves: list[pa.Table], described: Sequence[Described]
    ) -> None:
        self._error = error
        self._compute = compute
        self._leaves = leaves
        self._described = described

    def told(self, check: Callable[[], None]) -> BaseException:
        """The failure of these rows, with what they are."""
        with suppress(OdfError):
            for leaf in range(len(self._leaves)):
                self._reduce(leaf, check)
        problem = data_problem(self._error)
        if not isinstance(problem, InvalidData):
            return problem
        left = [each for each in zip(self._described, self._leaves, strict=True) if len(each[1])]
        # What a query has made of rows before says less than these.
        named = [each for each in left if each[0].alias] or left
        where = f", in {' and '.join(_shown(*each) for each in named)}" if named else ""
        place = problem.place
        for described, rows in left:
            if described.place_of is not None and len(rows) == 1:
                place = replace(described.place_of(rows), query_line=place.line, query_column=place.column)
        return InvalidData(f"{problem.message.removesuffix('.')}{where}", place=place, hint=problem.hint)

    def _reduce(self, leaf: int, check: Callable[[], None]) -> None:
        """Leaves out rows of a leaf: all of them, then parts, which become smaller where none can be left out.

        A row of one leaf may fail only beside one of another, a group only with all of its rows.
        """
        whole = self._leaves[leaf]
        if len(self._leaves) > 1 and self._fails(leaf, whole.slice(0, 0), check):
            return
        tries = parts = 2
        while tries < _TRIES_MAX and 1 < parts <= len(rows := self._leaves[leaf]):
            bounds = [len(rows) * at // parts for at in range(parts + 1)]
            pieces = [rows.slice(begin, end - begin) for begin, end in pairwise(bounds)]
            others = [pa.concat_tables(pieces[:at] + pieces[at + 1 :]) for at in range(parts)] if parts > 2 else []
            tries += len(pieces) + len(others)
            if any(self._fails(leaf, piece, check) for piece in pieces):
                parts = 2
            elif any(self._fails(leaf, rest, check) for rest in others):
                parts -= 1
            else:
                parts *= 2

    def _fails(self, leaf: int, rows: pa.Table, check: Callable[[], None]) -> bool:
        """Whether it still fails with fewer rows of a leaf; then it has fewer from now on."""
        check()
        fewer = [*self._leaves[:leaf], rows, *self._leaves[leaf + 1 :]]
        try:
            self._compute(fewer)
        except (PySparkException, Py4JError) as error:
            if not _is_of_data(error):
                raise
            self._error, self._leaves = error, fewer
            return True
        return False


def _is_of_data(error: BaseException) -> bool:
    return isinstance(as_odf_error(error), InvalidData)


def _shown(described: Described, rows: pa.Table) -> str:
    """The first of some rows, by the columns that were read and have a value."""
    values = [rows.column(at)[0].as_py() for at in range(len(described.columns))]
    known = zip(described.columns, values, strict=True)
    text = ", ".join(
        f"{name} = {_cut(_text(value), _VALUE_CHARACTERS_MAX)}" for name, value in known if value is not None
    )
    row = f"({_cut(text, _ROW_CHARACTERS_MAX)})"
    of = f" of {described.alias}" if described.alias else ""
    return f"row {row}{of}" if len(rows) == 1 else f"{len(rows)} rows{of}, the first of them {row}"


def _text(value: Any) -> str:
    if isinstance(value, dt.date):
        return value.isoformat().replace("+00:00", "Z")
    return repr(value) if isinstance(value, str) else str(value)


def _cut(text: str, characters: int) -> str:
    return text if len(text) <= characters else f"{text[: characters - 2]}.."
