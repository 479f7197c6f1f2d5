"""A job's lease is kept while its work says nothing.

Owns the thread that beats. Invariant: a beat that does not get through ends nothing: if none does, the lease ends by itself and another
worker takes the job over.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from odfabric.errors import LeaseLost, OdfError
from odfabric.usecases.jobs.job_run import LeasedRun


@contextmanager
def heartbeats(run: LeasedRun, *, every_s: float) -> Iterator[None]:
    """The lease is kept within.

    A lease that is lost is left to the job, which finds out.
    """
    finished = threading.Event()

    def beat() -> None:
        while not finished.wait(every_s):
            try:
                run.heartbeat()
            except LeaseLost:
                return  # the job's own thread finds out at its next step
            except OdfError:
                continue  # the next beat may get through; if none does, the lease ends and the job is taken over

    thread = threading.Thread(target=beat, name=f"heartbeat-{run.job_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
