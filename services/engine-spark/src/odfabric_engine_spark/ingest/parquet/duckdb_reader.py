"""Second reader of foreign Parquet for most files: DuckDB, beside Arrow.

Owns the comparison, batch by batch while rows are staged: a column passes if DuckDB, which shares no code with Arrow, gives the same values
in the same rows, bit by bit. Invariant: this reader accepts and never refuses. A column that it cannot read, reads in another way, or might
not hold in bounded memory is left to Spark (`second_reader`), which has the last word. What DuckDB holds at once is bounded by what the
pages allow (`parquet_survey`); it loads no extension and writes no file. Not here: casts (`parquet_reader`).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pyarrow as pa
from pyarrow import types

from odfabric_engine_spark.ingest.parquet.parquet_rows import READ_ERRORS
from odfabric_engine_spark.ingest.parquet.parquet_survey import WORST_BATCHES, Survey
from odfabric_engine_spark.spark.settings import EngineSettings

Cast: TypeAlias = Callable[[pa.Array, str], pa.Array]
"""An array of the column of this name as it is staged.

Raises pa.ArrowException.
"""

_VECTOR_ROWS = 2_048
"""Rows that DuckDB decodes at once, however few are asked for."""
_DATABASE_MIB = 64
"""Memory of DuckDB beside the pages that it decodes."""
_PATTERN_SIGNS = frozenset("*?[]{}")
_BITS = {pa.float32(): pa.int32(), pa.float64(): pa.int64()}


class DuckdbReader:
    """Reads columns of one file once more, in step with Arrow."""

    def __init__(self, path: Path, survey: Survey, file: pa.Schema, settings: EngineSettings, cast: Cast) -> None:
        """`file` has all columns of the file as Arrow found them."""
        self._cast = cast
        self._names = _readable(path, survey, file, settings)
        self._agreeing = set(self._names)
        self._missing = sum(group.rows for group in survey.groups)
        self._rows = _rows(path, self._names, survey, settings)
        self._waiting: pa.RecordBatch | None = None

    @property
    def agreed(self) -> frozenset[str]:
        """Columns of which every value was the same; none before the last row."""
        return frozenset(self._agreeing) if not self._missing else frozenset()

    def compare(self, columns: Mapping[str, pa.Array]) -> None:
        """Read as many rows as `columns` have, and compare."""
        if not self._agreeing:
            return
        start, count = 0, len(next(iter(columns.values())))
        while start < count and self._agreeing:
            piece = self._piece(count - start)
            if piece is None:
                self._agreeing.clear()
                return
            for name in list(self._agreeing):
                theirs = piece.column(self._names.index(name))
                if not self._is_same(name, theirs, columns[name].slice(start, piece.num_rows)):
                    self._agreeing.discard(name)
            start += piece.num_rows
        self._missing -= count

    def close(self) -> None:
        """Close the file."""
        self._rows.close()

    def _piece(self, rows: int) -> pa.RecordBatch | None:
        """At most so many of the next rows, None where there are none."""
        while self._waiting is None or not self._waiting.num_rows:
            self._waiting = next(self._rows, None)
            if self._waiting is None:
                return None
        piece, self._waiting = self._waiting.slice(0, rows), self._waiting.slice(rows)
        return piece

    def _is_same(self, name: str, theirs: pa.Array, ours: pa.Array) -> bool:
        try:
            return bool(_bits(self._cast(theirs, name)).equals(_bits(ours)))
        except READ_ERRORS:
            return False


def _bits(array: pa.Array) -> pa.Array:
    """Floating point numbers as their bits: NaN equals no number, not even itself."""
    return array.view(_BITS[array.type]) if array.type in _BITS else array


def _readable(path: Path, survey: Survey, file: pa.Schema, settings: EngineSettings) -> list[str]:
    """The unchecked columns that DuckDB may read."""
    known = {name.casefold() for name in file.names}
    if len(known) < len(file.names) or not _PATTERN_SIGNS.isdisjoint(str(path)):
        return []  # DuckDB does not tell names apart by case, and takes such paths for patterns
    largest = max((group.row_bytes for group in survey.groups), default=0)
    if largest * _VECTOR_ROWS > WORST_BATCHES * settings.batch_bytes:
        return []
    by_dictionary = {leaf.column for leaf in survey.leaves if leaf.path in survey.as_dictionaries}
    names, size = list[str](), 0
    for name, own in survey.unchecked.items():
        left_out = name in survey.arrow_only or name in by_dictionary or types.is_null(file.field(name).type)
        if not left_out and size + own <= settings.parquet_unchecked_bytes_max:
            names.append(name)
            size += own
    return names


def _rows(
    path: Path, names: Sequence[str], survey: Survey, settings: EngineSettings
) -> Generator[pa.RecordBatch, None, None]:
    """The rows of the file in order, as far as DuckDB reads them."""
    if not names:
        return
    # Costs a tenth of a second, which only those pay who push Parquet without checksums.
    import duckdb

    largest = max(group.row_bytes for group in survey.groups)
    rows = max(_VECTOR_ROWS, min(settings.batch_rows, WORST_BATCHES * settings.batch_bytes // largest))
    memory_mib = _DATABASE_MIB + settings.parquet_unchecked_bytes_max // (1024 * 1024)
    options: dict[str, str | bool | int | float | list[str]] = {
        "threads": 1,
        "memory_limit": f"{memory_mib}MiB",
        "temp_directory": "",
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "lock_configuration": True,
    }
    try:
        with closing(duckdb.connect(":memory:", config=options)) as database:
            columns = ", ".join('"' + name.replace('"', '""') + '"' for name in names)
            place = str(path).replace("'", "''")
            found = database.sql(f"SELECT {columns} FROM read_parquet('{place}', hive_partitioning = false)")
            yield from found.to_arrow_reader(rows)
    except (duckdb.Error, *READ_ERRORS):
        return  # Spark says what is wrong
