"""A projection of many columns in one question to the JVM.

PySpark asks the JVM some ten times for each column, which takes seconds for thousands of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

_SEPARATOR, _MORE = "\u0001", "\u0002"
"""A separator begins with a sign that is not repeated in it, so that no end of an expression can be taken for its beginning."""


def quoted(name: str) -> str:
    """The column of exactly this name in SQL, whatever signs are in it."""
    return "`" + name.replace("`", "``") + "`"


def selected(frame: DataFrame, expressions: Sequence[str]) -> DataFrame:
    """As `DataFrame.selectExpr` for one expression or more."""
    separator = _SEPARATOR
    while any(separator in expression for expression in expressions):
        separator += _MORE
    strings = JavaClass("org.apache.commons.lang3.StringUtils", frame._jdf._gateway_client)
    texts = strings.splitByWholeSeparatorPreserveAllTokens(separator.join(expressions), separator)
    return ClassicDataFrame(frame._jdf.selectExpr(texts), frame.sparkSession)
