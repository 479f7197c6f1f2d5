"""Failures of Spark tasks, and how they become the failure of the call.

Owns the way of an error from the process of a task to the engine's. Invariant: a user's error is the same wherever it was found; what
fails on a task's machine names no path of it. Not here: errors of Spark itself (`failures`).
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

from odfabric.errors import Determinate, OdfError
from odfabric.formats.engine_messages.engine_wire import failure_from_wire, failure_to_wire
from odfabric.generated.engine_v1 import engine_pb2 as pb
from odfabric_engine_spark.spark.failures import as_odf_error


def told_failure(error: OdfError | OSError | pa.ArrowException) -> bytes:
    """A failure as a task describes it. One of Arrow that is a bug of ours is raised."""
    if isinstance(error, OSError):
        error = Determinate(f"a task's machine failed: {error.strerror or type(error).__name__}")
    known = as_odf_error(error)
    if known is None:
        raise error
    return bytes(failure_to_wire(known).SerializeToString())


def raise_told(failures: Iterable[bytes | None]) -> None:
    """Raises the first failure of which tasks have reported, if there is one."""
    for failure in failures:
        if failure is not None:
            raise failure_from_wire(pb.Failure.FromString(failure))
