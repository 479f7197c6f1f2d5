"""The executors of a cluster, as the engine sees them.

Owns counting them, and telling when none is left for too long. Invariant: a call never waits for executors that do not come:
it fails for sure, and an engine without calls ends, so that its supervisor starts one that registers again. Not here: tasks that
one lost executor takes with it, which Spark runs again.
"""

from __future__ import annotations

import time

from py4j.protocol import Py4JError
from pyspark import SparkContext

from odfabric.errors import Determinate
from odfabric_engine_spark.spark.settings import EngineSettings

_LOOK_EVERY_S = 0.1


class Executors:
    """What was last seen of them. `look` is for one thread, the rest for all."""

    def __init__(self, context: SparkContext, settings: EngineSettings) -> None:
        self._backend = context._jsc.sc().schedulerBackend()
        self._settings = settings
        self._seen_at = time.monotonic()
        self.count = 0

    def look(self) -> None:
        """Counts them. A JVM that does not answer shows none."""
        try:
            self.count = int(self._backend.getExecutorIds().size())
        except Py4JError:
            self.count = 0
        if self.count:
            self._seen_at = time.monotonic()

    @property
    def lost(self) -> bool:
        """Whether there has been none for too long."""
        return time.monotonic() - self._seen_at > self._settings.executors_lost_s_max

    def await_first(self) -> None:
        """Returns when there is one. Raises Determinate when none comes in time."""
        end = time.monotonic() + self._settings.cluster_wait_s_max
        while True:
            self.look()
            if self.count:
                return
            if time.monotonic() >= end:
                raise self.missing()
            time.sleep(_LOOK_EVERY_S)

    def missing(self) -> Determinate:
        """The error of a call that cannot run without them."""
        settings = self._settings
        needed = f"executor_memory_mib = {settings.executor_memory_mib}, executor_cores = {settings.executor_cores}"
        return Determinate(
            f"the cluster has no executor for the engine: spark_master = {settings.spark_master}",
            hint=f"does a worker offer what is asked for ({needed})?",
        )
