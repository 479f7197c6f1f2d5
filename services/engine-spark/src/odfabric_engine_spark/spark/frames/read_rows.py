"""Rows that were read: frame, columns, and the place of each row in its file.

Owns the value that readers give to preprocessing and merging. Invariant: beside its visible columns a frame has the hidden
column `ROW`, the position of the row over all files, so that order and place survive whatever Spark does with partitions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from odfabric.errors import InvalidData, LimitExceeded, OdfError, Place
from odfabric.formats.slices.column_names import shown_name
from odfabric.model.engine import UndeclaredField
from odfabric_engine_spark.spark.catalyst.plan_nodes import OWN_PREFIX
from odfabric_engine_spark.spark.frames.plain_rows import Change, PlainRows
from odfabric_engine_spark.spark.settings import EngineSettings

ROW = f"{OWN_PREFIX}row"
"""Position of a row over all input files, from 0."""

RAISED = "ODF|"
"""Beginning of the messages by which an expression of ours stops a Spark job: kind, then row, then more."""

_STOPPED = re.compile(re.escape(RAISED) + r"([a-z-]+)((?:\|\d+)*)")

_SHOWN_CHARACTERS_MAX = 60

Locate: TypeAlias = Callable[[int], Place]
"""The place of the row at a position."""

Explain: TypeAlias = Callable[[], OdfError | None]
"""After a job was stopped by a reader's own expression: the error that names the first bad value, None if there is none."""


def _nowhere(row: int) -> Place:
    return Place(row=row + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRows:
    """A frame with the columns of `schema` in order, and `ROW`.

    It is made when it is first asked for, which takes a while.

    `plain` are the same rows without Spark, None where only Spark has them. `check` is what is left to be judged, by Spark, before
    anything that is made of the rows counts; it raises OdfError.
    `bytes` estimates what the rows take in memory, `count` is how many they are where that is known. `declared` says whether the user gave
    the schema. `undeclared` are fields of the files that no column is declared for, `found` the columns that they need, where these are
    to be added.
    """

    make_frame: Callable[[], DataFrame]
    schema: pa.Schema
    declared: bool
    bytes: int
    locate: Locate = _nowhere
    explain: Explain | None = None
    count: int | None = None
    undeclared: tuple[UndeclaredField, ...] = ()
    found: pa.Schema | None = None
    plain: PlainRows | None = None
    check: Callable[[], None] | None = None

    @property
    def frame(self) -> DataFrame:
        """The rows in Spark."""
        return self.make_frame()

    def checked(self) -> InputRows:
        """The same rows after `check`."""
        if self.check is not None:
            self.check()
        return replace(self, check=None)

    def changed(self, schema: pa.Schema, frame: Callable[[DataFrame], DataFrame], plain: Change) -> InputRows:
        """Other rows made of these: by `frame` of the frame, by `plain` of each batch.

        Both make the same.
        """
        return replace(
            self,
            schema=schema,
            make_frame=cache(lambda: frame(self.frame)),
            plain=None if self.plain is None else self.plain.changed(plain),
        )


def column(name: str) -> Column:
    """The column of exactly this name, whatever signs are in it."""
    return F.col("`" + name.replace("`", "``") + "`")


def raised(kind: str, *details: Column) -> Column:
    """An expression that stops the job.

    The message carries the details, none of which may hold a `|`.
    """
    return F.raise_error(F.concat_ws("|", F.lit(RAISED + kind), *(detail.cast("string") for detail in details)))


def stopped_by(text: str) -> tuple[str, list[int]] | None:
    """Kind and details of the `raised` expression that stopped a Spark job, or None."""
    found = _STOPPED.search(text)
    return (found[1], [int(number) for number in found[2].split("|")[1:]]) if found else None


def check_names(columns: Iterable[pa.Field], *, settings: EngineSettings, file: str | None) -> None:
    """Refuse bad column names: missing, repeated, reserved, too many, too long.

    A preprocess query may give them other names, so what a dataset can have is not judged here. Raises InvalidData, LimitExceeded.
    """
    fields = list(columns)
    names = [item.name for item in fields]
    if len(names) > settings.columns_max:
        raise InvalidData(f"{len(names)} columns are more than {settings.columns_max}", place=Place(file=file))
    maximum = settings.column_names_bytes_max
    if sum(_names_bytes(item) for item in fields) > maximum:
        message = "The names of the columns are too long"
        raise LimitExceeded(message, limit="column_names_bytes_max", maximum=maximum, place=Place(file=file))
    seen: set[str] = set()
    for index, name in enumerate(names):
        problem = "has no name" if not name else "appears twice" if name in seen else None
        if name.startswith(OWN_PREFIX):
            problem = f"begins with {OWN_PREFIX}, which the engine uses itself"
        if problem:
            called = shown_name(name)
            raise InvalidData(f"Column {index + 1} `{called}` {problem}", place=Place(file=file, field=called or None))
        seen.add(name)


def _names_bytes(item: pa.Field) -> int:
    within = (item.type.field(index) for index in range(item.type.num_fields))
    return len(item.name.encode("utf-8", "surrogatepass")) + sum(_names_bytes(each) for each in within)


def shown(text: str) -> str:
    """A user's text in messages: quoted, controls escaped, cut if long."""
    cut = text if len(text) <= _SHOWN_CHARACTERS_MAX else text[:_SHOWN_CHARACTERS_MAX] + "..."
    return repr(cut)
