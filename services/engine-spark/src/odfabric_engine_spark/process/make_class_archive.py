"""Makes the class archive.

`python -m odfabric_engine_spark.process.make_class_archive CACHE_FOLDER`.

Owns the run that is recorded: a Spark that does once what every ingest and transform does. The engine starts it in the
background when it finds no archive, at the lowest priority, and kills it with itself.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from pyspark.sql import functions as F

from odfabric_engine_spark.spark.jvm.class_archive import MAKING_S_MAX, ArchiveLock, ClassArchive, yield_to_everything
from odfabric_engine_spark.spark.jvm.jvm_process import find_java, spark_jars, start_jvm
from odfabric_engine_spark.spark.session import SparkProcess, attach, request_session
from odfabric_engine_spark.spark.settings import EngineSettings

_MEMORY_MIB = 512


def make(cache: Path) -> None:
    """Makes the archive unless it is there or being made."""
    cache.mkdir(parents=True, exist_ok=True)
    java = find_java(os.environ)
    archive = ClassArchive.in_folder(cache, java, spark_jars())
    if archive.exists or not ArchiveLock(cache).try_take():
        return
    yield_to_everything()
    jvm = start_jvm(java, memory_mib=_MEMORY_MIB, options=archive.record(), wait_s_max=MAKING_S_MAX)
    with tempfile.TemporaryDirectory() as folder:
        spark = attach(jvm, EngineSettings(exchange=Path(folder), stop_s_max=MAKING_S_MAX))
        _work(spark, Path(folder))
        spark.stop()
    archive.keep()


def _work(spark: SparkProcess, folder: Path) -> None:
    session = request_session(spark.session)
    rows = session.range(1000).select(
        "id",
        F.expr("cast(id as string) as text"),
        F.expr("timestamp_millis(id) as time"),
        F.expr("cast(id as decimal(12,2)) as amount"),
    )
    rows.coalesce(1).write.parquet(str(folder / "rows"))
    stored = session.read.schema(rows.schema).parquet(str(folder / "rows"))
    stored.createOrReplaceTempView("input")
    session.sql(
        "SELECT a.id, count(*) AS n, sum(a.amount) AS s, max(a.time) AS t FROM input a "
        "LEFT ANTI JOIN input b ON a.id <=> b.id + 1000 GROUP BY a.id HAVING count(*) > 0 ORDER BY a.id"
    ).toArrow()
    session.sql(
        "SELECT *, row_number() OVER (PARTITION BY text ORDER BY id) AS r FROM input a FULL OUTER JOIN "
        "(SELECT id AS i FROM input) b ON a.id = b.i"
    ).toArrow()
    (folder / "lines.csv").write_text("a,b\n1,x\n2,y\n")
    (folder / "lines.json").write_text('{"a": 1, "b": "x"}\n')
    session.read.schema("a string, b string").csv(str(folder / "lines.csv"), header=True).toArrow()
    session.read.schema("a string, b string").json(str(folder / "lines.json")).toArrow()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
