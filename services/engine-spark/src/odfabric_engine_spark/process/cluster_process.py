"""One process of a standalone Spark cluster: its master or a worker.

`python -m odfabric_engine_spark.process.cluster_process master|worker`.

Owns how master and workers are started: with our Java and Spark's classes, without a shell, in an environment of its own.
Invariant: a process takes part only with the secret, its page in the browser is on the loopback, and what it starts has the same
flags as the engine. The program becomes the Java process: anyone who ends it by its id ends the real one. Not here: the engine (`server`).
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import NoReturn

from odfabric.errors import InvalidRequest, OdfError
from odfabric_engine_spark.spark.cluster.cluster_settings import COMMON, SECRET_CHARACTERS_MIN
from odfabric_engine_spark.spark.jvm.jvm_process import (
    Java,
    access_options,
    find_java,
    same_everywhere,
    spark_home,
    spark_jars,
)

_CLASSES = {"master": "org.apache.spark.deploy.master.Master", "worker": "org.apache.spark.deploy.worker.Worker"}
_LOOPBACK = "127.0.0.1"
_EXECUTOR_JAVA = Path(__file__).parent / "executor_java"
"""A Java home for executors; it leads to ours."""

_PROPERTIES = {
    **COMMON,
    "spark.ui.killEnabled": "false",
    "spark.master.rest.enabled": "false",
    "spark.master.ui.decommission.allow.mode": "DENY",
    "spark.worker.ui.retainedExecutors": "10",
    "spark.worker.ui.retainedDrivers": "0",
    "spark.deploy.retainedApplications": "10",
    "spark.worker.timeout": "30",
    "spark.worker.preferConfiguredMasterAddress": "true",  # a master that moved is found by its name
    "spark.worker.cleanup.enabled": "true",
    "spark.worker.cleanup.appDataTtl": "3600",
}


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster_process", description="A master or worker of a Spark cluster.")
    parser.add_argument("role", choices=list(_CLASSES))
    parser.add_argument("--host", default=_LOOPBACK, help="address of this process, at which the others reach it")
    parser.add_argument("--port", type=int, default=0, help="its port, 0 for a free one; masters use 7077")
    parser.add_argument("--secret-file", type=Path, required=True, help="file with the secret of the cluster")
    parser.add_argument("--memory-mib", type=int, default=256, help="heap of the process itself")
    parser.add_argument("--master", help="of a worker: spark://host:port")
    parser.add_argument("--cores", type=int, default=1, help="of a worker: tasks that its executors may run at once")
    parser.add_argument(
        "--executors-memory-mib", type=int, default=2048, help="of a worker: heaps of all its executors"
    )
    parser.add_argument(
        "--work", type=Path, help="of a worker: folder for what executors write, shuffles and spills too"
    )
    return parser


def main() -> int:
    """Becomes the process; the exit code if it cannot."""
    given = _arguments().parse_args()
    try:
        _become(given)
    except OdfError as error:
        sys.stderr.write(f"the {given.role} does not start: {error}\n")
        return 1


def _become(given: argparse.Namespace) -> NoReturn:
    secret = given.secret_file.read_text().strip()
    if len(secret) < SECRET_CHARACTERS_MIN:
        raise InvalidRequest(f"the secret must have {SECRET_CHARACTERS_MIN} characters or more", hint="--secret-file")
    java = find_java(os.environ)
    environment = _environment(secret)
    own, command = [f"--host={given.host}", f"--port={given.port}", "--webui-port=0"], _java(java, given.memory_mib)
    if given.role == "worker":
        if not given.master or given.work is None:
            raise InvalidRequest("a worker needs --master and --work")
        given.work.mkdir(parents=True, exist_ok=True)
        environment |= {"JAVA_HOME": str(_EXECUTOR_JAVA), "ODF_EXECUTOR_JAVA": str(java.executable)}
        environment["SPARK_LOCAL_DIRS"] = environment["TMPDIR"] = str(given.work.resolve())
        command.append(f"-Djava.io.tmpdir={given.work.resolve()}")
        own += [f"--cores={given.cores}", f"--memory={given.executors_memory_mib}M", f"--work-dir={given.work}"]
        own.append(given.master)
    words = [word for option in own for word in (option.split("=", 1) if option.startswith("--") else (option,))]
    os.execve(java.executable, [*command, _CLASSES[given.role], *words], environment)


def _java(java: Java, memory_mib: int) -> list[str]:
    properties = [f"-D{name}={value}" for name, value in _PROPERTIES.items()]
    heap = [f"-Xmx{memory_mib}m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]  # it only passes news on
    return [
        str(java.executable),
        *access_options(java),
        *heap,
        *same_everywhere(java),
        *properties,
        "-cp",
        f"{spark_jars()}/*",
    ]


def _environment(secret: str) -> dict[str, str]:
    # Executors inherit it. The secret has to be in it: Spark hands it to them in this way.
    return {
        "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "HOME": "/nonexistent",
        "SPARK_HOME": str(spark_home()),
        "SPARK_SCALA_VERSION": _scala_version(),
        "SPARK_LOCAL_IP": _LOOPBACK,  # of the pages in the browser only: the process itself listens on its host
        "HADOOP_USER_NAME": "odf",
        "_SPARK_AUTH_SECRET": secret,
    }


def _scala_version() -> str:
    # Spark would look for it in folders of its own sources.
    (core,) = spark_jars().glob("spark-core_*.jar")
    return core.name.removeprefix("spark-core_").partition("-")[0]


if __name__ == "__main__":
    sys.exit(main())
