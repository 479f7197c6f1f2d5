"""Keys of one batch of new rows: present, not null, each once.

Owns what strategies with a key ask of their input. Of identical rows the first is kept; different rows of one key, and nulls in a
key, stop the job with a message from which `refused_key` makes the user's error. Source: ADR 0034.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from odfabric.errors import InvalidData, Place
from odfabric_engine_spark.ingest.merge.row_changes import any_of, changed
from odfabric_engine_spark.spark.catalyst.plan_nodes import OWN_PREFIX
from odfabric_engine_spark.spark.frames.read_rows import ROW, column, raised, shown

NULL_KEY = "null-key"
DUPLICATE_KEY = "duplicate-key"

_BEFORE = f"{OWN_PREFIX}before"


def check_key_columns(schema: pa.Schema, primary_key: Sequence[str]) -> None:
    """Raises InvalidData for a key that is empty or names columns which are not there."""
    if not primary_key:
        raise InvalidData("The merge strategy has an empty primary key", place=Place(rule="BadInputSchema"))
    for name in primary_key:
        if name not in schema.names:
            known = ", ".join(f"`{other}`" for other in schema.names)
            raise InvalidData(
                f"Primary key column `{name}` is absent from the input",
                place=Place(field=name, rule="BadInputSchema"),
                hint=f"the input has: {known}",
            )


def without_null_keys(rows: DataFrame, primary_key: Sequence[str]) -> DataFrame:
    """The rows; the job stops at a null in a key."""
    nulls = (F.when(column(name).isNull(), F.lit(index)) for index, name in enumerate(primary_key))
    null_column = F.coalesce(*nulls, F.lit(None).cast("int"))
    stop_at_null = F.when(null_column.isNotNull(), raised(NULL_KEY, F.col(ROW), null_column).cast("boolean"))
    return rows.where(F.coalesce(stop_at_null, F.lit(True)))


def unique_by_key(rows: DataFrame, primary_key: Sequence[str]) -> DataFrame:
    """The rows with one for each key.

    The job stops at a null in a key and at different rows of one key.
    """
    window = Window.partitionBy(*(column(name) for name in primary_key)).orderBy(ROW)
    numbered = without_null_keys(rows, primary_key).withColumn(_BEFORE, F.lag(F.struct("*")).over(window))
    before = F.col(_BEFORE)
    # A struct that is there has a position, so its absence marks the first row of a key.
    first = before.getField(ROW).isNull()
    different = any_of(
        changed(column(field.name), before.getField(field.name), field.dataType)
        for field in rows.schema.fields
        if field.name != ROW
    )
    stop = raised(DUPLICATE_KEY, before.getField(ROW), F.col(ROW)).cast("boolean")
    return numbered.where(F.when(first, F.lit(True)).when(different, stop).otherwise(F.lit(False))).drop(_BEFORE)


@dataclass(frozen=True, slots=True)
class BatchRows:
    """What messages say of a batch's rows: a row's place and the values of its key."""

    frame: DataFrame
    primary_key: Sequence[str]
    locate: Callable[[int], Place]

    def key_of(self, row: int) -> str:
        """The key of a row, as text. Runs a job."""
        found = (
            self.frame.where(F.col(ROW) == row).select(*(column(name) for name in self.primary_key)).limit(1).collect()
        )
        values = list(found[0]) if found else []
        return ", ".join(f"{name} = {shown(str(value))}" for name, value in zip(self.primary_key, values, strict=False))


def refused_key(kind: str, details: Sequence[int], batch: BatchRows) -> InvalidData | None:
    """The user's error behind a stopped job.

    None if the message is not of this module.
    """
    names = ", ".join(f"`{name}`" for name in batch.primary_key)
    if kind == NULL_KEY:
        row, index = details
        place = replace(batch.locate(row), field=batch.primary_key[index])
        return InvalidData("A primary key column is null", place=place, hint=f"the key is {names}")
    if kind == DUPLICATE_KEY:
        first, second = details
        other = str(batch.locate(first))
        return InvalidData(
            f"Different rows have the same primary key: {batch.key_of(second)}"
            + (f"; the first is at {other}" if other else ""),
            place=batch.locate(second),
            hint=f"the key is {names}; aggregate or choose in a preprocess query",
        )
    return None
