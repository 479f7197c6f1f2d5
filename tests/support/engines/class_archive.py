"""Spark's class archive, shared by all test engines: it halves each start.

Owns where it is. Invariant: no test waits for it or makes it; where it is missing engines start without it. `./odf test` makes it
before the tests. Not here: what it is and how it is made (`odfabric_engine_spark.spark.jvm.class_archive`).
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from odfabric_engine_spark.spark.jvm.class_archive import ClassArchive
from odfabric_engine_spark.spark.jvm.jvm_process import find_java, spark_jars

ROOT = Path(__file__).resolve().parents[3]


@cache
def class_archive() -> Path | None:
    """Its folder, if it is there."""
    found = _archive()
    return found.top.parent if found.exists else None


def archive_flags() -> list[str]:
    """Flags of a JVM that uses it, none if it is not there."""
    return _archive().use()


def _archive() -> ClassArchive:
    folder = Path(os.environ.get("ODF_ENGINE_CACHE") or ROOT / ".odf" / "engine-cache")
    return ClassArchive.in_folder(folder, find_java(os.environ), spark_jars())
