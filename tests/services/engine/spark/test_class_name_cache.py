"""What a name of the JVM stands for is asked for once.

What a static field holds, each time.
"""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JError

from odfabric_engine_spark.spark.session import SparkProcess

pytestmark = pytest.mark.spark


def test_classes_packages_and_methods_are_remembered(spark: SparkProcess) -> None:
    jvm = spark.session._jvm
    assert jvm.PythonSQLUtils is jvm.PythonSQLUtils
    assert jvm.org.apache.spark.sql.types is jvm.org.apache.spark.sql.types
    assert jvm.java.util.HashMap is jvm.java.util.HashMap
    assert jvm.java.lang.Math.max is jvm.java.lang.Math.max
    # The same ones do what they did before.
    assert jvm.java.lang.Math.max(3, 5) == jvm.java.lang.Math.max(5, 3) == 5
    assert jvm.java.util.AbstractMap.SimpleEntry("a", 1).getKey() == "a"
    assert jvm.java.util.HashMap() is not jvm.java.util.HashMap()


def test_values_of_fields_are_read_again(spark: SparkProcess) -> None:
    lang = spark.session._jvm.java.lang
    assert lang.Integer.MAX_VALUE == (1 << 31) - 1
    assert "MAX_VALUE" not in vars(lang.Integer)
    assert lang.System.out is not lang.System.out


def test_what_is_not_there_is_said_each_time(spark: SparkProcess) -> None:
    integer = spark.session._jvm.java.lang.Integer
    for _ in range(2):
        with pytest.raises(Py4JError, match=r"Integer\.nothing does not exist"):
            assert integer.nothing
