"""Changelog batches: valid kinds of change, and the last change of each key.

Owns what ChangelogStream and UpsertStream ask of their input. A batch of changes has its own order: changes of a key follow each other as
they were given. A kind that is none, a change that cannot follow the one before, and nulls in a key stop the job with a message from
which `refused_change` makes the user's error. Not here: what the changes do to the state (`strategies`). Source:
specification, "Merge Strategies".
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyarrow import types
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from odfabric.errors import InvalidData, Place
from odfabric.model.operation import OperationType
from odfabric_engine_spark.ingest.merge.batch_keys import BatchRows
from odfabric_engine_spark.spark.catalyst.plan_nodes import OWN_PREFIX
from odfabric_engine_spark.spark.frames.read_rows import ROW, column, raised

NO_KIND = "no-kind-of-change"
OUT_OF_TURN = "change-out-of-turn"
HALF = "half-a-correction"

_BEFORE = f"{OWN_PREFIX}before"
_AFTER = f"{OWN_PREFIX}after"
_BEFORE_TIME = f"{OWN_PREFIX}before_time"
_NOTHING = -1

_WORDS = {
    OperationType.APPEND: "append (0)",
    OperationType.RETRACT: "retract (1)",
    OperationType.CORRECT_FROM: "correct-from (2)",
    OperationType.CORRECT_TO: "correct-to (3)",
}
_FOLLOWS = {
    OperationType.APPEND: (OperationType.RETRACT,),
    OperationType.RETRACT: (OperationType.APPEND, OperationType.CORRECT_TO),
    OperationType.CORRECT_FROM: (OperationType.APPEND, OperationType.CORRECT_TO),
    OperationType.CORRECT_TO: (OperationType.CORRECT_FROM,),
}
"""What may come before a change in a batch; all but correct-to may be the first one of their key."""
_KINDS = "0 append, 1 retract, 2 correct-from, 3 correct-to"


def with_kinds(rows: DataFrame, schema: pa.Schema, name: str, *, required: bool) -> DataFrame:
    """The rows with their kinds of change in the type of slices.

    Without such a column all are appended, if that may be.

    Raises InvalidData for a column that is missing or no integer; the job stops at a kind that is none.
    """
    if name not in schema.names:
        if required:
            raise InvalidData(
                f"The input has no column `{name}`, which says what each row does",
                place=Place(field=name, rule="BadInputSchema"),
                hint=f"an integer: {_KINDS}; rows without it fit UpsertStream",
            )
        return rows.withColumn(name, F.lit(OperationType.APPEND.value))
    if not types.is_integer(schema.field(name).type):
        raise InvalidData(
            f"Column `{name}` says what each row does, so it must be an integer, but is {schema.field(name).type}",
            place=Place(field=name, rule="BadInputSchema"),
            hint=f"an integer: {_KINDS}; map other names of changes in a preprocess query",
        )
    value = column(name)
    known = value.isin(*(kind.value for kind in OperationType))
    stop = raised(NO_KIND, F.col(ROW)).cast("int")
    return rows.withColumn(name, F.when(F.coalesce(known, F.lit(False)), value.cast("int")).otherwise(stop))


def last_of_each_key(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Of the changes of each key in a batch the last one that was given."""
    window = Window.partitionBy(*(column(name) for name in keys)).orderBy(ROW)
    following = rows.withColumn(_AFTER, F.lead(F.col(ROW)).over(window))
    return following.where(F.col(_AFTER).isNull()).drop(_AFTER)


def in_turn(rows: DataFrame, keys: Sequence[str], kind: str, time: str, order: Sequence[Column]) -> DataFrame:
    """The rows, for `first_in_batch`.

    The job stops where changes of a key do not follow.

    What withdraws the row of the change before without an event time has that row's.
    """
    window = Window.partitionBy(*(column(name) for name in keys)).orderBy(*order)
    sides = rows.withColumns(
        {
            _BEFORE: F.coalesce(F.lag(column(kind)).over(window), F.lit(_NOTHING)),
            _AFTER: F.coalesce(F.lead(column(kind)).over(window), F.lit(_NOTHING)),
            _BEFORE_TIME: F.lag(column(time)).over(window),
        }
    )
    follows = F.lit(False)
    for each, before in _FOLLOWS.items():
        first = () if each is OperationType.CORRECT_TO else (_NOTHING,)
        follows |= (column(kind) == each.value) & F.col(_BEFORE).isin(*first, *(one.value for one in before))
    whole = (column(kind) != OperationType.CORRECT_FROM.value) | (F.col(_AFTER) == OperationType.CORRECT_TO.value)
    out_of_turn = raised(OUT_OF_TURN, F.col(ROW), column(kind), F.col(_BEFORE) + 1).cast("boolean")
    half = raised(HALF, F.col(ROW)).cast("boolean")
    judged = sides.where(F.when(follows & whole, F.lit(True)).when(~follows, out_of_turn).otherwise(half))
    timed = F.when(withdraws(kind), F.coalesce(column(time), F.col(_BEFORE_TIME))).otherwise(column(time))
    return judged.withColumn(time, timed).drop(_AFTER, _BEFORE_TIME)


def withdraws(kind: str) -> Column:
    """Whether a change takes a row away."""
    return column(kind).isin(OperationType.RETRACT.value, OperationType.CORRECT_FROM.value)


def first_in_batch() -> Column:
    """Of rows from `in_turn`: whether no change of the key comes before."""
    return F.col(_BEFORE) == _NOTHING


def without_turns(rows: DataFrame) -> DataFrame:
    """Rows from `in_turn` without what only this module needs."""
    return rows.drop(_BEFORE)


def refused_change(kind: str, details: Sequence[int], batch: BatchRows) -> InvalidData | None:
    """The user's error behind a stopped job.

    None if the message is not of this module.
    """
    if kind == NO_KIND:
        return InvalidData("The kind of change is none", place=batch.locate(details[0]), hint=_KINDS)
    if kind == OUT_OF_TURN:
        row, what, before = details
        after = f"after {_WORDS[OperationType(before - 1)]}" if before else "as its first change"
        return InvalidData(
            f"The key {batch.key_of(row)} cannot have {_WORDS[OperationType(what)]} {after} in a batch",
            place=batch.locate(row),
            hint="a correct-to follows its correct-from; what is there is retracted or corrected, not appended again"
            " (UpsertStream takes what comes last)",
        )
    if kind == HALF:
        return InvalidData(
            f"The correct-from of the key {batch.key_of(details[0])} is not followed by its correct-to",
            place=batch.locate(details[0]),
            hint="both belong into one batch, one after the other",
        )
    return None
