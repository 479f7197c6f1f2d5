"""Hints by Celery: "somebody look for a job", given to one worker that is free.

Owns the only use of Celery. A hint carries no work: the job table does, and a worker that takes a hint leases what is ready there,
so a hint that is lost, late or doubled changes nothing but time. Invariant: hints are acknowledged when they are taken, never after
a job, so no job is repeated because it was long; without Redis all calls return soon and workers find jobs by looking.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from celery import Celery
from celery.exceptions import OperationalError
from celery.worker import WorkController
from kombu.exceptions import OperationalError as BrokerUnavailable

_log = logging.getLogger(__name__)

TASK = "odfabric.look"
EXPIRES_S = 30
"""A hint that nobody took in this time says nothing any more: by then workers have looked by themselves."""
CONNECT_S_MAX = 2.0
PAUSE_S = 1.0
_QUEUE_PREFIX = "odf.hints."


class Hints:
    """Gives and takes hints on one queue.

    `name` distinguishes nodes that share a Redis; `look` does what a hint asks for.
    """

    def __init__(self, redis_url: str, *, name: str, look: Callable[[], None], threads: int) -> None:
        logging.getLogger("celery").setLevel(logging.WARNING)  # two lines for each hint say nothing
        self._app = _app(redis_url, _QUEUE_PREFIX + name)

        def take() -> None:
            look()

        self._app.task(take, name=TASK)
        self._threads = threads
        self._stopping = threading.Event()
        self._controller: Any = None
        self._taking = threading.Thread(target=self._take_always, name="hints", daemon=True)

    def start(self) -> None:
        """Take hints from now on."""
        self._taking.start()

    def stop(self, *, patience_s: float) -> None:
        """Take no more; those taken go on until `patience_s` have passed."""
        self._stopping.set()
        if self._controller is not None:
            self._controller.stop()
        self._taking.join(patience_s)

    def give(self) -> bool:
        """Give a hint; whether the queue has it."""
        try:
            self._app.send_task(TASK, expires=EXPIRES_S, retry=False)
        except (OperationalError, BrokerUnavailable) as error:
            _log.warning("no hint could be given: %s", type(error).__name__)
            return False
        return True

    def _take_always(self) -> None:
        while not self._stopping.is_set():
            # One that lost its connection may give up for good: another one takes its place.
            self._controller = WorkController(
                app=self._app,
                hostname=f"odfabric@{threading.get_native_id()}",
                pool="threads",
                concurrency=self._threads,
                without_heartbeat=True,
                without_mingle=True,
                without_gossip=True,
                task_events=False,
            )
            try:
                self._controller.start()
            except Exception:  # noqa: BLE001  # whatever it ends with, hints are taken again
                _log.exception("taking hints failed")
            self._stopping.wait(PAUSE_S)


def _app(redis_url: str, queue: str) -> Celery:
    app = Celery("odfabric", broker=redis_url, set_as_current=False)
    app.conf.update(
        task_default_queue=queue,
        task_ignore_result=True,
        task_acks_late=False,
        task_serializer="json",
        accept_content=["json"],
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_send_task_events=False,
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_connection_timeout=CONNECT_S_MAX,
        broker_transport_options={"socket_timeout": CONNECT_S_MAX, "socket_connect_timeout": CONNECT_S_MAX},
    )
    return app
