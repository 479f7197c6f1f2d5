"""How long a receiver that answers waits beside 1,000 that hang.

    .odf/venv/bin/python -m tests.perf.bench_webhooks
    ODF_BENCH_ACCOUNTS=one .odf/venv/bin/python -m tests.perf.bench_webhooks

One process with the embedded stores (SQLite, a folder) and the runner of a worker, with the settings that a node has by itself. The
receivers are sockets of this machine, each under a name of its own; those that hang take the request and answer nothing for as long as
a sender waits (20 s). They follow ten datasets, which change every five seconds; the one that answers follows another one, which changes
every half a second. All belong to one account if `ODF_BENCH_ACCOUNTS` is `one`, else the one that answers has an account of its own.
Measured is the time from the commit to the arrival, in seconds: the first, p50, p95 and the longest.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from odfabric.adapters.http.egress import Egress
from odfabric.adapters.http.webhook import HttpWebhookSender
from odfabric.domain.access import LOCAL_ACCOUNT, Subject
from odfabric.formats.manifest_yaml import parse_snapshots
from odfabric.model.commit import CatalogEntry
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.metadata import SetInfo
from odfabric.settings import Settings
from odfabric.wiring import Node, open_node, prepare_workspace
from odfabric_worker.runner import Runner, RunnerPace
from tests.perf.bench_console import manifest
from tests.perf.many_datasets import local_and_others
from tests.support.loopback_http import LoopbackServer, Seen, reply

HANGING = int(os.environ.get("ODF_BENCH_HANGING", "1000"))
CROWDS = 10
CHANGES = int(os.environ.get("ODF_BENCH_CHANGES", "120"))
PAUSE_S = 0.5
CROWD_EVERY = 10


class Arrivals:
    """When each event has come."""

    def __init__(self) -> None:
        self.at: list[float] = []
        self._come = threading.Condition()

    def respond(self, _: Seen) -> bytes:
        with self._come:
            self.at.append(time.monotonic())
            self._come.notify_all()
        return reply(204)

    def wait(self, count: int, deadline_s: float) -> None:
        with self._come:
            if not self._come.wait_for(lambda: len(self.at) >= count, deadline_s):
                raise TimeoutError(f"{len(self.at)} of {count} events have come")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, receivers() as (good, evil, arrivals):
        settings = Settings(workspace=Path(folder) / "w", account_datasets_max=100)
        prepare_workspace(settings)
        with open_node(settings) as opened, Egress(allow=["127.0.0.0/8"], resolver=lambda _: ["127.0.0.1"]) as egress:
            sender = HttpWebhookSender(egress, timeout_s=settings.webhook_timeout_s)
            node = Node(replace(opened.ports, webhooks=sender), settings)
            other = node.operator if os.environ.get("ODF_BENCH_ACCOUNTS") == "one" else another(node)
            crowds = [add(node, f"crowd-{number}", node.operator) for number in range(CROWDS)]
            own = add(node, "own", other)
            for number in range(HANGING):
                url = f"http://evil-{number}.test:{evil.port}/"
                node.subscribe(crowds[number % CROWDS], url=url, secret=None)
            node.subscribe(own, by=other, url=good.url(), secret=None)
            runner = Runner(node, name="bench", pace=RunnerPace(poll_s=settings.job_poll_s))
            runner.start()
            waits = measured(node, own, other, crowds, arrivals)
            print(f"{HANGING} receivers that hang, of which {len(evil.seen)} attempts were held; {CHANGES} events")
            shown = (waits[0], statistics.median(waits), statistics.quantiles(waits, n=20)[-1], max(waits))
            print("    first      p50      p95  longest  s\n" + "".join(f"{each:9.3f}" for each in shown))
            evil.stopping.set()
            runner.stop(patience_s=30)


def measured(
    node: Node, own: CatalogEntry, other: Subject, crowds: list[CatalogEntry], arrivals: Arrivals
) -> list[float]:
    """Seconds from each commit to its arrival."""
    committed = []
    for number in range(CHANGES):
        if number % CROWD_EVERY == 0:
            for crowd in crowds:
                change(node, crowd, node.operator, number)
            time.sleep(2 * PAUSE_S)
        change(node, own, other, number)
        committed.append(time.monotonic())
        time.sleep(PAUSE_S)
    arrivals.wait(CHANGES, 600)
    return [come - made for come, made in zip(arrivals.at, committed, strict=True)]


def add(node: Node, name: str, subject: Subject) -> CatalogEntry:
    assert subject.account is not None
    (snapshot,) = parse_snapshots(manifest(f"{subject.account.name}/{name}", 1), limits=node.manifest_limits)
    node.create(snapshot, subject)
    return node.resolve(DatasetAlias(subject.account.name, Name(name)))


def change(node: Node, entry: CatalogEntry, subject: Subject, number: int) -> None:
    node.editing.set_info(entry, [SetInfo(description=f"change {number}")], subject)


def another(node: Node) -> Subject:
    """An account beside the node's own."""
    name = next(name for name in local_and_others(node, 1) if name != LOCAL_ACCOUNT)
    account = node.ports.accounts.by_name(name)
    assert account is not None
    return node.access.subject(account)


@contextmanager
def receivers() -> Iterator[tuple[LoopbackServer, LoopbackServer, Arrivals]]:
    """One that answers, and many that hang, behind one socket."""
    arrivals = Arrivals()
    good = LoopbackServer(arrivals.respond)
    evil = LoopbackServer(hang(lambda: evil.stopping))
    with good.serving(), evil.serving():
        yield good, evil, arrivals


def hang(stopping: Callable[[], threading.Event]) -> Callable[[Seen], bytes]:
    def respond(_: Seen) -> bytes:
        stopping().wait(60)
        return b""

    return respond


if __name__ == "__main__":
    main()
