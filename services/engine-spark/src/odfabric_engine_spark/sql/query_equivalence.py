"""Whether two transforms have the same meaning.

Owns the comparison: statement by statement, as Spark parses them. Invariant: transforms that are called the same give the same rows
and keep the same state, so a checkpoint of one continues under the other; the reverse is not promised - what is only equal in
effect counts as different, and its result is computed again. Not here: what becomes of rows (`migrate_query`), where a checkpoint is read
(`execute.execute_transform`). Source: docs/engine.md#operations.
"""

from __future__ import annotations

from collections.abc import Sequence

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from odfabric.errors import OdfError
from odfabric.model.metadata import SqlQueryStep, TransformSql
from odfabric_engine_spark.spark.catalyst.plan_nodes import Catalyst, meaning_of
from odfabric_engine_spark.sql.gate import gated_session, steps_of
from odfabric_engine_spark.sql.parsed_plan_rules import Mode


def says_the_same(session: SparkSession, one: TransformSql, other: TransformSql) -> bool:
    """Whether spaces, comments and the like are all that differs.

    False also for a statement that cannot be read.
    """
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


def _meanings(catalyst: Catalyst, steps: Sequence[SqlQueryStep]) -> list[str]:
    return [meaning_of(catalyst.parse(step.query), parsed=True) for step in steps]
