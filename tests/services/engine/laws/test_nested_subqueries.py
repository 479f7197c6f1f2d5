"""Random nested subqueries mean what plain Spark says, or are refused.

`ODF_NESTED_CASES` says how many statements (default 20), `ODF_NESTED_SEED` which.
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from odfabric.errors import InvalidQuery
from odfabric_engine_spark.spark.session import SparkProcess, interpret, request_session
from odfabric_engine_spark.sql.refusal import Refused
from tests.services.engine.laws.grammar.nested_subqueries import NestedSubqueries
from tests.services.engine.plan.normalising import Queries, random_rows

pytestmark = [pytest.mark.spark, pytest.mark.timeout(0)]

CASES = int(os.environ.get("ODF_NESTED_CASES", "20"))
SEED = int(os.environ.get("ODF_NESTED_SEED", "0"))
ROWS = 12
"""Of each input: three of them are crossed."""


@pytest.fixture(scope="module")
def queries(spark: SparkProcess) -> Queries:
    session = request_session(spark.session)
    interpret(session)
    session.conf.set("spark.sql.shuffle.partitions", "1")
    session.conf.set("spark.sql.leafNodeDefaultParallelism", "1")
    return Queries(session, spark.settings, random_rows(SEED, count=ROWS))


def test_subqueries_in_subqueries_give_the_rows_of_plain_spark_or_are_refused(queries: Queries) -> None:
    chance, outcomes, wrong = Random(SEED), Counter[str](), []
    for number in range(CASES):
        statement = NestedSubqueries(Random(chance.getrandbits(32))).statement()
        try:
            outcome = _outcome(queries, statement)
        except Exception as error:  # noqa: BLE001 - one broken statement must not hide the others
            outcome = f"{type(error).__name__}: {str(error)[:300]}"
        outcomes[outcome.partition(":")[0]] += 1
        if outcome not in _WELL:
            wrong.append(f"{statement}\n    {outcome}")
            print(number, *wrong[-1:], sep="\n", flush=True)
    print(dict(outcomes))
    assert not wrong, "\n".join(wrong)


_WELL = ("same", "refused", "not in Spark")


def _outcome(queries: Queries, statement: str) -> str:
    try:
        plain = queries.plain(statement)
    except (PySparkException, Py4JError):
        return "not in Spark"
    try:
        found = queries.rows_of(queries.normal(statement))
    except (Refused, InvalidQuery) as error:
        return "refused" if "line" in str(error) else f"without a place: {error}"
    return "same" if found == plain else f"differs: {_difference(found, plain)}"


def _difference(found: Counter[Any], plain: Counter[Any]) -> str:
    more, less = found - plain, plain - found
    return f"{more.total()} more {list(more)[:2]}, {less.total()} less {list(less)[:2]}, of {plain.total()}"
