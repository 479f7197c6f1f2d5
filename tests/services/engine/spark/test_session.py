"""What a session of a call is, and what it keeps from others."""

from __future__ import annotations

import pytest

from odfabric_engine_spark.spark.session import PINNED, SparkProcess, request_session

pytestmark = pytest.mark.spark


def test_every_session_is_pinned_even_if_another_call_changed_its_own(spark: SparkProcess) -> None:
    first, second = request_session(spark.session), request_session(spark.session)
    first.conf.set("spark.sql.ansi.enabled", "false")
    first.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    assert {name: second.conf.get(name) for name in PINNED} == PINNED


def test_spark_does_not_lose_itself_while_its_machine_sleeps(spark: SparkProcess) -> None:
    """Spark does not give up while its machine sleeps.

    Without executors of others, silence says no more than that nothing ran, and what was lost would never come back.
    """
    receiver = spark.session._jvm.org.apache.spark.SparkContext.getOrCreate().conf()
    silent_s_max = receiver.getTimeAsSeconds("spark.storage.blockManagerHeartbeatTimeoutMs", "120s")
    assert silent_s_max >= 24 * 3600


def test_views_are_private_to_their_session(spark: SparkProcess) -> None:
    first, second = request_session(spark.session), request_session(spark.session)
    first.range(3).createOrReplaceTempView("mine")
    assert first.catalog.tableExists("mine")
    assert not second.catalog.tableExists("mine")


def test_the_jvm_sees_no_variable_of_our_surroundings(spark: SparkProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    names = set(spark.session._jvm.java.lang.System.getenv().keySet())
    assert names <= {
        "PATH", "LD_LIBRARY_PATH", "TMPDIR", "LANG", "TZ", "SPARK_HOME", "SPARK_LOCAL_IP", "HADOOP_USER_NAME",
        "_PYSPARK_DRIVER_CONN_INFO_PATH",
    }  # fmt: skip
