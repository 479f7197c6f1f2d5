"""A Spark standalone cluster whose executors run the engine's tasks.

Owns what the engine says to Spark about it, and waiting for its master. Invariant: nobody takes part who does not know the secret,
what travels is encrypted, and a cluster that is not there is a failure that names the setting, within a bounded time. Not here:
processes of the cluster (`cluster_process`), how many executors there are (`executors`).
"""

from __future__ import annotations

import os
import re
import socket
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from odfabric.errors import Determinate, InvalidRequest
from odfabric_engine_spark.spark.jvm.jvm_process import find_java, same_everywhere
from odfabric_engine_spark.spark.settings import EngineSettings

T = TypeVar("T")

_MASTER = re.compile(r"spark://([A-Za-z0-9][A-Za-z0-9.-]*):([0-9]{1,5})", re.ASCII)
_CONNECT_S_MAX = 2.0
_AGAIN_S = 0.2
SECRET_CHARACTERS_MIN = 16
"""Shorter secrets can be guessed: they are all that keeps strangers from running code on executors."""

COMMON = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
    "spark.network.crypto.authEngineVersion": "2",
}
"""What engine, master, workers and executors must agree on."""

_ENGINE = {
    "spark.scheduler.minRegisteredResourcesRatio": "0",
    "spark.locality.wait": "0s",  # all executors see the same folder
    # A task that does not heed its cancelling takes its executor with it; the worker starts another.
    "spark.task.reaper.enabled": "true",
    "spark.task.reaper.pollingInterval": "500ms",
    "spark.task.reaper.threadDump": "false",
    "spark.executorEnv.TZ": "UTC",
    "spark.executorEnv.LANG": "C.UTF-8",
}
_REAPED_SHARE = 0.5
"""Share of the patience with a cancelled call after which executors with stubborn tasks end: the rest is for the news to arrive."""


_OWN_FOLDER = "-Djava.io.tmpdir=."
"""Libraries that an executor unpacks lie in its folder, which its worker removes; one that is killed would leave them in /tmp."""


def check_cluster(settings: EngineSettings) -> None:
    """Raises InvalidRequest for a master of another kind, or one without a secret."""
    if not settings.spark_master:
        return
    if not _MASTER.fullmatch(settings.spark_master):
        raise InvalidRequest(
            f"spark_master = {settings.spark_master!r} is not spark://host:port",
            hint="only standalone clusters are used; on Kubernetes deploy/helm starts one",
        )
    if len(settings.spark_secret) < SECRET_CHARACTERS_MIN:
        raise InvalidRequest(
            f"a cluster needs a secret of {SECRET_CHARACTERS_MIN} characters or more", hint="--spark-secret-file"
        )


def cluster_conf(settings: EngineSettings) -> list[tuple[str, str]]:
    """Spark's configuration for the cluster of the settings."""
    told = {
        "spark.master": settings.spark_master,
        "spark.authenticate.secret": settings.spark_secret,
        "spark.driver.host": settings.spark_driver_host,
        "spark.driver.bindAddress": settings.spark_driver_host,
        "spark.driver.port": str(settings.spark_driver_port),
        "spark.blockManager.port": str(settings.spark_block_port),
        "spark.executor.cores": str(settings.executor_cores),
        "spark.cores.max": str(settings.executors_max * settings.executor_cores),
        "spark.executor.memory": f"{settings.executor_memory_mib}m",
        "spark.executor.extraJavaOptions": " ".join(
            [*same_everywhere(find_java(os.environ)), _OWN_FOLDER, *settings.executor_jvm_options.split()]
        ),
        "spark.task.reaper.killTimeout": f"{round(settings.grace_s * _REAPED_SHARE * 1000)}ms",
    }
    return [*COMMON.items(), *_ENGINE.items(), *told.items()]


def await_master(settings: EngineSettings) -> None:
    """Returns when the master can be connected to.

    Raises Determinate when it cannot in time.
    """
    found = _MASTER.fullmatch(settings.spark_master)
    assert found is not None
    end = time.monotonic() + settings.cluster_wait_s_max
    while True:
        try:
            socket.create_connection((found[1], int(found[2])), _CONNECT_S_MAX).close()
            return
        except (OSError, OverflowError) as error:
            if time.monotonic() >= end:
                raise Determinate(
                    f"the master of the cluster cannot be reached: spark_master = {settings.spark_master}",
                    hint=getattr(error, "strerror", None) or type(error).__name__,
                ) from error
        time.sleep(_AGAIN_S)


def in_time(work: Callable[[], T], *, give_up: Callable[[], None], settings: EngineSettings) -> T:
    """The result of connecting to the cluster.

    Raises Determinate if it fails, or `give_up` had to end it.

    Spark tries for minutes when a master does not accept it, and says little about why.
    """
    over = threading.Timer(settings.cluster_wait_s_max, give_up)
    over.start()
    try:
        return work()
    except Exception as error:
        raise Determinate(
            f"the master of the cluster does not accept the engine: spark_master = {settings.spark_master}",
            hint="is the secret the same, and is the version of Spark?",
        ) from error
    finally:
        over.cancel()
