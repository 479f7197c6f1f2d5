"""What this machine offers to an engine, as one JSON object.

`python -m odfabric_engine_spark.process.machine_report`.

It runs in a process that ends at once, because trying a wall means to put it up. Starts no engine and no Java.
"""

from __future__ import annotations

import json
import os
import sys
from importlib.util import find_spec

from odfabric.errors import OdfError
from odfabric_engine_spark.process.sandbox import kernel, landlock
from odfabric_engine_spark.process.sandbox.enter import leave_namespaces
from odfabric_engine_spark.spark.jvm.jvm_process import find_java


def report() -> dict[str, object]:
    """`java` is a version, or empty with `javaProblem` if no engine can be started.

    `namespaces` and `landlock` whether these walls can be had.
    """
    java, problem = "", "Spark is not installed"
    if find_spec("pyspark") is not None:
        try:
            java, problem = str(find_java(os.environ).version), ""
        except OdfError as error:
            problem = error.message
    is_linux = sys.platform == "linux"
    return {
        "java": java,
        "javaProblem": problem,
        "landlock": is_linux and landlock.version() > 0,
        "namespaces": is_linux and _has_namespaces(),
    }


def _has_namespaces() -> bool:
    try:
        leave_namespaces()
        kernel.mount_privately()
    except OSError:
        return False
    return True


if __name__ == "__main__":
    sys.stdout.write(json.dumps(report()))
