"""Whether two transforms say the same.

Owns the comparison: statement by statement, as Spark parses them. Invariant: transforms that are called the same give the same rows
and keep the same state, so a checkpoint of one continues under the other; the reverse is not promised - what is only equal in
effect counts as different, and its result is computed anew. Not here: what becomes of rows (`migrate`), where a checkpoint is read
(`incremental.execute`). Source: semantics of transforms, section 7.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odfabric.errors import OdfError
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric_engine_spark.catalyst import Catalyst
from odfabric_engine_spark.validate.gate import gated_session, steps_of
from odfabric_engine_spark.validate.parsed import Mode

_COLUMN_ID = re.compile(r"#\d+L?\b")
_EXPRESSION_ID = "org.apache.spark.sql.catalyst.expressions.ExprId"


def says_the_same(session: SparkSession, one: TransformSql, other: TransformSql) -> bool:
    """Whether spaces, comments and the like are all that differs; False also for a statement that cannot be read."""
    try:
        left, right = steps_of(one), steps_of(other)
    except OdfError:
        return False
    if [step.alias for step in left] != [step.alias for step in right]:
        return False
    if [step.query for step in left] == [step.query for step in right]:
        return one.temporal_tables == other.temporal_tables
    catalyst = Catalyst(gated_session(session, mode=Mode.TRANSFORM))
    try:
        meant = _meanings(catalyst, left) == _meanings(catalyst, right)
    except (PySparkException, Py4JError):
        return False
    return meant and one.temporal_tables == other.temporal_tables


def _meanings(catalyst: Catalyst, steps: Sequence[SqlQueryStep]) -> list[tuple[str, str]]:
    """Each statement twice: the one form tells literals apart, the other kinds of casts, and neither tells everything."""
    plans = [catalyst.parse(step.query) for step in steps]
    return [
        (
            json.dumps(_without_ids(json.loads(str(plan.toJSON()))), sort_keys=True),
            _COLUMN_ID.sub("#", str(plan.toString())),
        )
        for plan in plans
    ]


def _without_ids(value: object) -> object:
    """A tree without the numbers that every parse gives out anew."""
    match value:
        case {"product-class": str(name)} if name == _EXPRESSION_ID:
            return None
        case dict():
            return {key: _without_ids(member) for key, member in value.items()}
        case list():
            return [_without_ids(member) for member in value]
        case _:
            return value
