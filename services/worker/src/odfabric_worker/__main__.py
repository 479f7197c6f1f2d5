"""`python -m odfabric_worker`: the worker process of a node."""

from __future__ import annotations

import argparse
import logging
import os
import signal
import socket
import sys

from odfabric.garbage import collect_rarely, keep_for_good

collect_rarely()  # before the imports, which make most of what there will be

from prometheus_client import start_http_server

from odfabric.adapters.system.owner import end_with_owner
from odfabric.asked_to_end import AskedToEnd
from odfabric.errors import OdfError
from odfabric.model.jobs.job import Lane
from odfabric.settings import Settings, read_settings
from odfabric.telemetry import start_logging
from odfabric.wiring import Node, open_node
from odfabric.wiring.monitoring.tracing import tracing
from odfabric_worker.hinted import HintedRunner
from odfabric_worker.runner import Runner, RunnerPace

_log = logging.getLogger(__name__)

STOP_PATIENCE_S = 10.0


def _name(pid: int) -> str:
    return f"{socket.gethostname()}/{pid}"


def _runner(node: Node) -> Runner | HintedRunner:
    settings, name = node.settings, _name(os.getpid())
    wanted = {Lane.HEAVY: settings.job_threads, Lane.LIGHT: settings.light_job_threads}
    threads = {lane: count for lane, count in wanted.items() if settings.worker_lane in ("all", lane.value)}
    if settings.redis_url is None:
        return Runner(node, name=name, pace=RunnerPace(threads=threads, poll_s=settings.job_poll_s))
    return HintedRunner(
        Runner(node, name=name, pace=RunnerPace(threads=dict.fromkeys(threads, 1), poll_s=settings.job_poll_s)),
        node.ports.signals,
        redis_url=settings.redis_url,
        name=settings.redis_name,
        threads=threads,
        look_s=settings.job_poll_s,
    )


def main(arguments: list[str]) -> int:
    """Run until SIGTERM, SIGINT or the end of the owner process.

    Settings come from the environment (`ODF_...`).

    Exit code 1: it could not begin, and the log says why.
    """
    parser = argparse.ArgumentParser(prog="odfabric-worker", description=main.__doc__)
    parser.add_argument("--owner-pid", type=int, help="end when this process has ended")
    parser.add_argument(
        "--predecessor-pid", type=int, help="worker of this machine that has died: its jobs are ours at once"
    )
    parser.add_argument("--ready-file", help="file to be written once the worker runs")
    options = parser.parse_args(arguments)
    start_logging("worker")
    try:
        _work(read_settings(), options)
    except (OdfError, OSError) as error:
        _log.error("%s", error)
        return 1
    return 0


def _work(settings: Settings, options: argparse.Namespace) -> None:
    stopping = AskedToEnd()
    for sign in (signal.SIGTERM, signal.SIGINT):
        signal.signal(sign, lambda *_: stopping.set())
    if options.owner_pid is not None:
        end_with_owner(options.owner_pid, stopping.set)
    with tracing(settings, "worker"), open_node(settings) as node:
        if options.predecessor_pid is not None:
            node.jobs.give_back(f"{_name(options.predecessor_pid)}/")
        if settings.worker_metrics_port is not None:
            start_http_server(
                settings.worker_metrics_port, addr=settings.worker_metrics_host, registry=node.status.registry
            )
        runner = _runner(node)
        keep_for_good()
        runner.start()
        if options.ready_file:
            with open(options.ready_file, "w") as ready:
                ready.write(str(os.getpid()))
        stopping.wait()
        # What is not done by now is taken over by the next worker when its lease ends.
        runner.stop(patience_s=STOP_PATIENCE_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
