"""Spark sessions: one for the process, one for each call.

Owns Spark's configuration. Invariant: everything that can change a result is pinned here (zone, dialect, case, rebase of
dates, number of partitions), and a call's views, variables and settings are private to it. Not here: which SQL may run
(`sql`), how long (`running_calls`).
"""

from __future__ import annotations

import os
import sys

from py4j.java_gateway import JavaGateway
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from odfabric.errors import Determinate
from odfabric_engine_spark.spark.calls.interruptible_jvm_calls import make_interruptible
from odfabric_engine_spark.spark.catalyst.shared_nodes import make_shared_nodes
from odfabric_engine_spark.spark.cluster.cluster_settings import await_master, cluster_conf, in_time
from odfabric_engine_spark.spark.cluster.executors import Executors
from odfabric_engine_spark.spark.jvm.class_archive import ClassArchive
from odfabric_engine_spark.spark.jvm.class_name_cache import remember_names
from odfabric_engine_spark.spark.jvm.jvm_process import Jvm, find_java, spark_jars, start_jvm
from odfabric_engine_spark.spark.settings import EngineSettings

PINNED = {
    # meaning
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",  # as the reference: identifiers are compared as written
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",  # dates before 1582 are taken as they stand
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96RebaseModeInWrite": "CORRECTED",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.hadoop.parquet.page.verify-checksum.enabled": "true",  # a page that carries one, that is
    "spark.sql.files.ignoreMissingFiles": "false",
    # Statistics of a file tell -0.0 from 0.0 and leave out NaN; of members they are all that speaks against asking them.
    "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources": "",
    # walls
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.variable.substitute": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.legacy.allowUntypedScalaUDF": "false",
    # One plan for one query: re-planning by size at run time would make speed and row order depend on the data's layout,
    # and costs more than it saves on small inputs.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

_ALONE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # A machine that slept for minutes finds its own JVM silent for as long, and Spark would count it as lost, for good.
    "spark.storage.blockManagerHeartbeatTimeoutMs": "10d",
}

_PROCESS = {
    "spark.app.name": "odfabric-engine",
    "spark.ui.enabled": "false",
    "spark.ui.retainedJobs": "10",
    "spark.ui.retainedStages": "10",
    "spark.ui.retainedTasks": "1000",
    "spark.sql.ui.retainedExecutions": "10",
    "spark.eventLog.enabled": "false",
    # A regular expression over a long text may overflow a task's stack, which is no reason to end all calls: it fails the task.
    "spark.executor.killOnFatalError.depth": "0",
    "spark.scheduler.mode": "FAIR",
    # Classes that Spark compiles for plans, some 20 KiB each. A query of many stages has more than a hundred, which is Spark's own bound:
    # it would compile all of them for each transaction again, and so would many queries in turn.
    "spark.sql.codegen.cache.maxEntries": "2000",
    # Sorts and joins spill beyond this share of the heap. The rest must hold what Spark does not count, and a third of the
    # heap is the young generation: with Spark's own 0.6 a sort of some million rows ran out of memory.
    "spark.memory.fraction": "0.4",
}


def spark_conf(settings: EngineSettings, *, scratch: str) -> SparkConf:
    """The whole configuration; values of the surroundings are not read."""
    conf = SparkConf(loadDefaults=False).setAll([*PINNED.items(), *_PROCESS.items()])
    alone = [*_ALONE.items(), ("spark.master", f"local[{settings.cores}]")]
    conf.setAll(cluster_conf(settings) if settings.spark_master else alone)
    return conf.setAll(
        [
            ("spark.sql.shuffle.partitions", str(settings.shuffle_partitions)),
            ("spark.sql.execution.arrow.maxRecordsPerBatch", str(settings.batch_rows)),
            ("spark.sql.execution.arrow.localRelationThreshold", f"{settings.planned_bytes_max}b"),
            # What would be larger goes through files; the first way that is tried must not exhaust memory.
            ("spark.driver.maxResultSize", f"{2 * settings.collected_bytes_max}b"),
            ("spark.local.dir", scratch),
            ("spark.sql.warehouse.dir", f"{scratch}/warehouse"),
        ]
    )


_TELLTALE = "SQLQueryContextLogger"
"""PySpark's logger that prints the text of every failing query, which belongs to its user."""


class SparkProcess:
    """The JVM with its Spark context.

    `session` is the root from which each call's session is made.

    `executors` are those of a cluster, None where Spark runs tasks in the JVM itself.
    """

    def __init__(self, jvm: Jvm, session: SparkSession, settings: EngineSettings) -> None:
        self.jvm = jvm
        self.session = session
        self.settings = settings
        self.executors = Executors(session.sparkContext, settings) if settings.spark_master else None

    def stop(self) -> None:
        """Stops Spark and ends the JVM."""
        gateway = SparkContext._gateway
        if self.jvm.process.poll() is None:
            self.session.stop()
        if gateway is not None:
            gateway.shutdown()
            SparkContext._gateway = SparkContext._jvm = None
        self.jvm.stop(wait_s_max=self.settings.stop_s_max)


def start_spark(settings: EngineSettings) -> SparkProcess:
    """Starts the JVM and Spark in it.

    One per process. Raises Determinate if the JVM or the cluster is not there in time.
    """
    if settings.spark_master:
        await_master(settings)
    java = find_java(os.environ)
    archive = ClassArchive.in_folder(settings.cache, java, spark_jars()) if settings.cache else None
    return attach(
        start_jvm(
            java,
            memory_mib=settings.memory_mib,
            options=[*(archive.use() if archive else ()), *settings.jvm_options.split()],
            wait_s_max=settings.start_s_max,
        ),
        settings,
    )


def attach(jvm: Jvm, settings: EngineSettings) -> SparkProcess:
    """Starts Spark in a running JVM."""
    PySparkLogger.getLogger(_TELLTALE).disabled = True
    # PySpark attaches to a running JVM only through these two variables.
    told = {"PYSPARK_GATEWAY_PORT": str(jvm.port), "PYSPARK_GATEWAY_SECRET": jvm.secret}
    os.environ.update(told)
    try:
        gateway = launch_gateway()
    finally:
        for name in told:
            del os.environ[name]
    make_interruptible(gateway)
    make_shared_nodes(gateway)
    remember_names(gateway)
    conf = spark_conf(settings, scratch=str(jvm.scratch))
    if not settings.spark_master:
        return SparkProcess(jvm, _session(SparkContext(gateway=gateway, conf=conf)), settings)
    return _attached_to_cluster(jvm, gateway, conf, settings)


def _session(context: SparkContext) -> SparkSession:
    # Tasks of ours (`stages.stage_tasks`) need our packages: executors have them at the same place.
    context.pythonExec = sys.executable
    return SparkSession(context)


def _attached_to_cluster(jvm: Jvm, gateway: JavaGateway, conf: SparkConf, settings: EngineSettings) -> SparkProcess:
    try:
        context = in_time(lambda: SparkContext(gateway=gateway, conf=conf), give_up=jvm.process.kill, settings=settings)
    except Determinate:
        jvm.stop(wait_s_max=settings.stop_s_max)
        raise
    spark = SparkProcess(jvm, _session(context), settings)
    assert spark.executors is not None
    try:
        spark.executors.await_first()
    except Determinate:
        spark.stop()
        raise
    return spark


def request_session(spark: SparkSession) -> SparkSession:
    """A session with private views, functions and settings, configured as pinned."""
    return spark.newSession()


def interpret(session: SparkSession) -> None:
    """Makes a call's session run plans without compiling them first.

    Results are the same.
    """
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
