"""What is read of Spark's messages, which repeat values of users at any length."""

from __future__ import annotations

import re

import pytest
from py4j.protocol import Py4JError

from odfabric.errors import InvalidData, InvalidQuery, OdfError
from odfabric_engine_spark.spark.failures import MESSAGE_CHARACTERS_MAX, as_odf_error, spark_condition, spark_text

CAST = (
    "[CAST_INVALID_INPUT] The value '{}' of the type \"STRING\" cannot be cast. SQLSTATE: 22018\n\tat org.apache.spark"
)


@pytest.mark.parametrize(
    "value", [" " * 400_000 + "x", "x" * 4_000_000, "\n" * 400_000, "[A" * 200_000, "A.[A_" * 100_000]
)
def test_a_long_value_is_read_in_part(value: str) -> None:
    error = Py4JError(CAST.format(value))
    assert len(spark_text(error)) <= (256 << 10) + 10
    assert re.search(r"\s{33}", spark_text(error)) is None
    condition, message = spark_condition(error)
    assert condition == "CAST_INVALID_INPUT"
    assert len(message) <= MESSAGE_CHARACTERS_MAX
    assert isinstance(as_odf_error(error), InvalidData)


def test_a_short_value_is_read_as_it_is() -> None:
    text = CAST.format("a  b\n c")
    assert spark_text(Py4JError(text)) == text


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        (
            "Job aborted due to stage failure: Task 0: java.lang.StackOverflowError\n\tat java.util.regex.Pattern",
            InvalidData,
        ),
        (
            "Job aborted due to stage failure: Task 0: java.lang.StackOverflowError\n\tat com.fasterxml.jackson",
            InvalidData,
        ),
        ("java.lang.StackOverflowError\n\tat java.util.regex.Pattern$GroupTail.match", InvalidData),
        ("java.lang.StackOverflowError\n\tat org.apache.spark.sql.catalyst.trees.TreeNode", InvalidQuery),
        (": java.lang.RuntimeException: Max iterations (100) reached for batch Resolution, please set", InvalidQuery),
        (CAST.format("Max iterations (5) of nesting depth (3)"), InvalidData),
        (CAST.format("java.lang.StackOverflowError"), InvalidData),
        ("Job aborted due to stage failure: Task 0: " + CAST.format("java.lang.StackOverflowError"), InvalidData),
    ],
)
def test_what_goes_too_deep_is_told_of_the_row_or_of_the_query(said: str, kind: type[OdfError]) -> None:
    told = as_odf_error(Py4JError(said))
    assert type(told) is kind
    assert told.hint


def test_the_state_of_a_long_message_is_read() -> None:
    told = as_odf_error(Py4JError(f"[INVALID_URL] The url is invalid: {'x' * 400_000}. SQLSTATE: 22P02\n"))
    assert isinstance(told, InvalidData)


def test_a_long_text_of_a_function_is_read_in_part() -> None:
    value = "(\nCaused by: x." + "Format" * 200_000 + "\n\tat org.apache.spark.sql.catalyst.expressions.X"
    assert as_odf_error(Py4JError(f"An error occurred. Trace: {value}")) is None
