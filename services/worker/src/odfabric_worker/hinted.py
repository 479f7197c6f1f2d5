"""A runner started by hints: with Redis, a job starts at once on a free worker.

Owns how signals become hints and hints become jobs. A signal says that there are jobs; every worker hears it and gives one hint, and
a worker that takes a hint gives the next one as soon as it has found a job, so that hints grow to as many workers as there is work.
Invariant: a job never depends on a hint. The runner looks by itself too, seldom; without Redis that is what is left.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from functools import partial

from odfabric.errors import OdfError
from odfabric.model.jobs.job import Lane
from odfabric.ports.subscriptions.signals import Signals, Topic
from odfabric_worker.hints import Hints
from odfabric_worker.runner import Runner

_log = logging.getLogger(__name__)


class HintedRunner:
    """A Runner and the hints of its node.

    A queue for each lane, so that light work never waits behind heavy work.
    """

    def __init__(
        self,
        runner: Runner,
        signals: Signals,
        *,
        redis_url: str,
        name: str,
        threads: Mapping[Lane, int],
        look_s: float,
    ) -> None:
        """So many jobs of each lane are done at once by hints.

        Signals are awaited `look_s` seconds at a time.
        """
        self._runner = runner
        self._signals = signals
        self._look_s = look_s
        self._stopping = threading.Event()
        self._hints = {
            lane: Hints(redis_url, name=f"{name}.{lane.value}", look=partial(self._look, lane), threads=count)
            for lane, count in threads.items()
        }
        self._relaying = threading.Thread(target=self._relay, name="hint-relay", daemon=True)

    def start(self) -> None:
        """Start everything."""
        self._runner.start()
        for hints in self._hints.values():
            hints.start()
        self._relaying.start()

    def stop(self, *, patience_s: float) -> bool:
        """End everything; whether it ended within the patience."""
        end = time.monotonic() + patience_s
        self._stopping.set()
        ended = self._runner.stop(patience_s=patience_s)
        for hints in self._hints.values():
            hints.stop(patience_s=max(0.0, end - time.monotonic()))
        self._relaying.join(max(0.0, end - time.monotonic()))
        return ended

    def _relay(self) -> None:
        while not self._stopping.is_set():
            if self._signals.wait(Topic.JOBS, timeout_s=self._look_s) and not self._stopping.is_set():
                for hints in self._hints.values():
                    hints.give()

    def _look(self, lane: Lane) -> None:
        try:
            while not self._stopping.is_set() and self._runner.one_job(lane, self._hints[lane].give):
                pass
        except OdfError as error:
            _log.warning("no job could be taken: %s", error)
