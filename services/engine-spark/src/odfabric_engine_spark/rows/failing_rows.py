"""Find the rows on which an expression failed.

Owns the search for them: parts of the rows are computed again, without what is not needed for the failure. Invariant: what is reported is
the failure of rows that were computed alone; where no part of the rows fails by itself, all of them are reported. It computes at most a few
times what failed. Not here: what a failure says (`failures`), when a failure is final (`execute_transform`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeVar

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidData, OdfError, Place
from odfabric_engine_spark.arrays.shown_values import cut, shown_value
from odfabric_engine_spark.spark.catalyst.plan_nodes import OWN_PREFIX
from odfabric_engine_spark.spark.failures import as_odf_error, spark_condition, spark_text
from odfabric_engine_spark.sql.refusal import data_problem, place_told

ResultT = TypeVar("ResultT")
Computation = Callable[[Sequence[pa.Table]], object]
Check = Callable[[], None]

_log = logging.getLogger(__name__)

_TRIES_MAX = 100
"""How often rows are computed again at most."""
_TIMES_MAX = 8
"""How much that may be together, in times of the rows that failed together."""
_ROWS_MIN = 10_000
"""So many may be computed again in any case."""
_ROW_CHARACTERS_MAX = 200


@dataclass(frozen=True, slots=True)
class Described:
    """What rows are called: their input ("" for a query's own) and first columns.

    `place_of` says where a single row stands in a file.
    """

    alias: str
    columns: tuple[str, ...]
    place_of: Callable[[pa.Table], Place] | None = None


Describe = Callable[[], Sequence[Described]]
"""What rows of each scan are called: asked when a failure is reported, for it takes a look at the plan."""


class FailedRows(Exception):
    """An expression failed on rows; which of them is looked for when it is reported."""

    def __init__(self, error: PySparkException | Py4JError, search: Callable[[Check], BaseException]) -> None:
        """`search` gives what is reported; its argument raises when there is no more time."""
        super().__init__(str(error))
        self.error = error
        self._search = search

    def told(self, check: Check) -> BaseException:
        """The failure of as few rows as possible, which it names.

        `check` raises when there is no more time to look for them.
        """
        try:
            return self._search(check)
        except Exception:  # noqa: BLE001 - whatever becomes of the search, the failure that is known is the answer
            _log.exception("the rows that failed could not be found")
            return data_problem(self.error)


def computed_over(
    compute: Callable[[Sequence[pa.Table]], ResultT],
    scans: Sequence[pa.Table],
    described: Describe,
    *,
    row_wise: bool = True,
) -> ResultT:
    """What is computed of the rows of some scans; `row_wise`: of each row alone.

    Raises FailedRows where rows are to blame, and else what `compute` raises.
    """
    try:
        return compute(scans)
    except (PySparkException, Py4JError) as error:
        if not is_of_data(error):
            raise
        fewest = FewestRows(error, compute, scans, described, row_wise=row_wise)
        raise FailedRows(error, fewest.told) from error


@contextmanager
def found_again(compute: Callable[[], object]) -> Iterator[None]:
    """Work of which rows are not at hand.

    Where rows are to blame, `compute` does the same with rows at hand when it is reported.
    """
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if not is_of_data(error):
            raise
        known = error

        def search(check: Check) -> BaseException:
            try:
                compute()
            except FailedRows as found:
                return found.told(check)
            return data_problem(known)

        raise FailedRows(error, search) from error


class FewestRows:
    """The fewest rows of some scans that fail, as far as they have been looked for.

    Where rows are not mapped alone, fewer of them may fail for another reason: only a failure at the same place, of the same condition
    counts then, and no scan loses all of its rows, for a row without a partner is another one.
    """

    def __init__(
        self,
        error: BaseException,
        compute: Computation,
        scans: Sequence[pa.Table],
        described: Describe,
        *,
        row_wise: bool,
    ) -> None:
        self._error = error
        self._compute = compute
        self._scans = list(scans)
        self._described = described
        self._row_wise = row_wise
        self._tries = _TRIES_MAX
        self._rows = max(_TIMES_MAX * sum(map(len, scans)), _ROWS_MIN)

    def told(self, check: Check) -> BaseException:
        """The failure of these rows, with what they are."""
        with suppress(OdfError, _Enough):
            for scan in range(len(self._scans)):
                self._reduce(scan, check)
        problem = data_problem(self._error)
        if not isinstance(problem, InvalidData):
            return problem
        left = [each for each in zip(self._described(), self._scans, strict=True) if len(each[1])]
        # What a query has made of rows before says less than these.
        named = [each for each in left if each[0].alias] or left
        where = f", in {' and '.join(_shown(*each) for each in named)}" if named else ""
        place = problem.place
        for described, rows in left:
            if described.place_of is not None and len(rows) == 1:
                place = replace(described.place_of(rows), query_line=place.line, query_column=place.column)
        return InvalidData(f"{problem.message.removesuffix('.')}{where}", place=place, hint=problem.hint)

    def _reduce(self, scan: int, check: Check) -> None:
        """Leave out rows of a scan: all of them, then parts.

        The parts become smaller where none can be left out.
        """
        if self._row_wise and len(self._scans) > 1 and self._fails(scan, self._scans[scan].slice(0, 0), check):
            return
        parts = 2
        while parts <= len(rows := self._scans[scan]):
            bounds = [len(rows) * at // parts for at in range(parts + 1)]
            pieces = [rows.slice(begin, end - begin) for begin, end in pairwise(bounds)]
            others = [pa.concat_tables(pieces[:at] + pieces[at + 1 :]) for at in range(parts)] if parts > 2 else []
            if any(self._fails(scan, piece, check) for piece in pieces):
                parts = 2
            elif any(self._fails(scan, rest, check) for rest in others):
                parts -= 1
            else:
                parts *= 2

    def _fails(self, scan: int, rows: pa.Table, check: Check) -> bool:
        """Whether it still fails with fewer rows of a scan; then it has fewer from now on."""
        check()
        fewer = [*self._scans[:scan], rows, *self._scans[scan + 1 :]]
        self._tries, self._rows = self._tries - 1, self._rows - sum(map(len, fewer))
        if self._tries < 0 or self._rows < 0:
            raise _Enough
        try:
            self._compute(fewer)
        except (PySparkException, Py4JError) as error:
            if not is_of_data(error):
                raise
            if not (self._row_wise or _kind(error) == _kind(self._error)):
                return False
            self._error, self._scans = error, fewer
            return True
        return False


class _Enough(Exception):
    """The search has computed as much as it may."""


def is_of_data(error: BaseException) -> bool:
    """Whether rows are to blame for a failure."""
    return isinstance(as_odf_error(error), InvalidData)


def _kind(error: BaseException) -> tuple[object, ...]:
    """What failed, and where in the query."""
    return (spark_condition(error)[0], place_told(spark_text(error)))


def _shown(described: Described, rows: pa.Table) -> str:
    """The first of some rows, by the columns that were read and have a value."""
    first = [(name, rows.column(at)[0]) for at, name in enumerate(described.columns) if not name.startswith(OWN_PREFIX)]
    known = [f"{name} = {shown_value(value)}" for name, value in first if value.is_valid]
    text = ", ".join(known)
    row = f"({cut(text, _ROW_CHARACTERS_MAX)})"
    of = f" of {described.alias}" if described.alias else ""
    return f"row {row}{of}" if len(rows) == 1 else f"{len(rows)} rows{of}, the first of them {row}"
