"""Conversations of the Smart protocol in which one of the two nodes is killed.

The node that dies is a process of its own, as client or as server, and dies before or after one of the messages that it says. Whatever it
was: no reader sees a part of what was on its way, the same command given again goes on, and what had arrived is not sent twice.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from odfabric.adapters.memory.node.clock import SettableClock
from odfabric.formats.identifiers.dataset_layout import dataset_prefix
from odfabric.formats.identifiers.references import parse_dataset_alias
from odfabric.model.identity import DatasetAlias, Name
from odfabric.model.jobs.job import Job, JobStatus
from odfabric.model.jobs.requests import PullRequest, SendWish
from odfabric.usecases.verification.verification_run import VerifyOptions
from odfabric.wiring import Node
from tests.drills import scenario
from tests.drills.places import Place, Places
from tests.drills.processes import ended, opened, run, started
from tests.services.api.serving import TOKEN, serving
from tests.support.waiting import wait_until

KILLED = -signal.SIGKILL
LATER_H = 48
LATER_MS = LATER_H * 3600 * 1000
URL_FILE, END_FILE, RESULT_FILE = "url", "end", "result"
SERVE_S_MAX = 120.0
"""For how long a server waits for the word that it may end."""
OBJECTS = len(scenario.DAYS)


# What runs in the process that may die.


def push(node: Node, clock: SettableClock, receiver: str) -> None:
    """Push to the node at `receiver`."""
    entry = node.datasets.resolve(parse_dataset_alias("readings"))
    job = node.sharing.push(entry, SendWish(to=f"odf+http://{receiver}/local/readings"), by=node.operator)
    _note(node, _work(node, job))


def pull(node: Node, clock: SettableClock, receiver: str) -> None:
    """Pull from the node at `receiver`."""
    _note(node, _work(node, node.requests.pull(_pull_of(receiver))))


def serve(node: Node, clock: SettableClock, receiver: str) -> None:
    """Serve until the word comes."""
    folder = node.settings.workspace
    with serving(node) as served:
        (folder / f"{URL_FILE}.new").write_text(served.url)
        os.replace(folder / f"{URL_FILE}.new", folder / URL_FILE)
        wait_until((folder / END_FILE).exists, deadline_s=SERVE_S_MAX, what="the word to end")


def _pull_of(address: str) -> PullRequest:
    alias = DatasetAlias(Name("local"), Name("readings"))
    return PullRequest(dataset=None, alias=alias, url=f"odf+http://{address}/local/readings")


def _work(node: Node, job: Job) -> Job:
    return node.jobs.work_until_ended(job, worker=f"drill/{os.getpid()}", listener=lambda _: None)


def _note(node: Node, job: Job) -> None:
    assert job.status is JobStatus.SUCCEEDED, job.error
    (node.settings.workspace / RESULT_FILE).write_text(job.result or "{}")


# What stands around it.


def client_dies(places: Places, folder: Path, armed: str, *, pushes: bool) -> None:
    """Our client is killed in the middle of a push or a pull."""
    ours, theirs = _two(places, folder)
    steps = push if pushes else pull
    with opened(ours if pushes else theirs) as node:
        if pushes:
            scenario.grow_origin(node)
    with opened(theirs if pushes else ours) as peer:
        if not pushes:
            scenario.grow_origin(peer)
        with serving(peer) as served:
            address = served.url.removeprefix("http://")
            dying = _reaching(ours if pushes else theirs, served.url)
            assert run(dying, steps, crash_at=armed, receiver=address) == KILLED, f"{armed} was never reached"
            with opened(dying, receiver=address) as node:
                receives = peer if pushes else node
                before = _arrived(receives)
                _nothing_half(receives)
            assert isinstance(peer.ports.clock, SettableClock)
            peer.ports.clock.advance(LATER_MS)
            assert run(dying, steps, hours_ahead=LATER_H, receiver=address) == 0
            result = json.loads((dying.workspace / RESULT_FILE).read_text())
            with opened(dying, hours_ahead=LATER_H, receiver=address) as node:
                _same(node, peer)
            if pushes and not result["upToDate"]:
                assert result["objects"] == OBJECTS - before, "what had arrived was sent again"


def server_dies(places: Places, folder: Path, armed: str, *, pushes: bool) -> None:
    """Our server is killed while it receives or gives.

    The client fails, and goes on with the next server.
    """
    ours, theirs = _two(places, folder)
    with opened(ours) as node:
        scenario.grow_origin(node)
    staying, dying = (ours, theirs) if pushes else (theirs, ours)
    with _served(dying, crash_at=armed) as url, _opened_client(staying, url) as node:
        _client(node, url, pushes=pushes)
    with opened(theirs) as receives:
        before = _arrived(receives)
        _nothing_half(receives)
    with _served(dying) as url, _opened_client(staying, url) as node:
        job = _client(node, url, pushes=pushes)
        assert job.status is JobStatus.SUCCEEDED, job.error
        result = json.loads(job.result or "{}")
    if pushes and not result["upToDate"]:
        assert result["objects"] == OBJECTS - before, "what had arrived was sent again"
    with opened(ours) as one, opened(theirs) as other:
        _same(one, other)


@contextmanager
def _served(place: Place, *, crash_at: str | None = None) -> Iterator[str]:
    """The URL of a process that serves the place; in the end it has died as it should."""
    for name in (URL_FILE, END_FILE):
        (place.workspace / name).unlink(missing_ok=True)
    process = started(place, serve, crash_at=crash_at)
    try:
        wait_until((place.workspace / URL_FILE).exists, deadline_s=60, what="the server")
        yield (place.workspace / URL_FILE).read_text()
    finally:
        if crash_at is None:
            (place.workspace / END_FILE).touch()
        code = ended(process)
    assert code == (0 if crash_at is None else KILLED), f"{crash_at}: the server ended with {code}"


@contextmanager
def _opened_client(place: Place, url: str) -> Iterator[Node]:
    with opened(_reaching(place, url), receiver=url.removeprefix("http://")) as node:
        yield node


def _client(node: Node, url: str, *, pushes: bool) -> Job:
    """Push to, or pull from, the server under a URL; the job, whatever became of it."""
    address = url.removeprefix("http://")
    if not pushes:
        return _work(node, node.requests.pull(_pull_of(address)))
    entry = node.datasets.resolve(parse_dataset_alias("readings"))
    return _work(node, node.sharing.push(entry, SendWish(to=f"odf+{url}/local/readings"), by=node.operator))


def _two(places: Places, folder: Path) -> tuple[Place, Place]:
    found = []
    for name in ("ours", "theirs"):
        (folder / name).mkdir()
        found.append(places.new(folder / name))
        found[-1].workspace.mkdir(parents=True, exist_ok=True)
    return found[0], found[1]


def _reaching(place: Place, url: str) -> Place:
    """The place of a node that may talk to a node under a URL."""
    port = int(url.rpartition(":")[2])
    more: dict[str, Any] = {"egress_ports": (port,), "remote_tokens": {url: TOKEN}}
    return replace(place, settings={**place.settings, **more})


def _arrived(node: Node) -> int:
    """Slices of the dataset in the objects of a node, named by a chain or not."""
    return sum("/data/" in key for key in node.ports.objects.keys("f"))


def _nothing_half(node: Node) -> None:
    """The dataset is not there, is its Seed alone, or is whole and verifies."""
    entries = node.datasets.page(after=None, limit=10)
    if not entries or node.datasets.head(entries[0]).sequence_number == 0:
        return
    _verified(node)


def _verified(node: Node) -> None:
    while node.background.relay_outbox():
        pass  # as a worker does, which publishes heads that a dead process has only committed
    entry = node.datasets.resolve(parse_dataset_alias("readings"))
    job = _work(node, node.requests.verify(entry, VerifyOptions(replay=False)))
    found = json.loads(job.result or "{}")
    assert found.get("errors") == [], (found, job.error)
    assert _arrived(node) == OBJECTS


def _same(one: Node, other: Node) -> None:
    """Both have the same head, objects and log of heads, and verify."""
    found = []
    for node in (one, other):
        _verified(node)
        entry = node.datasets.resolve(parse_dataset_alias("readings"))
        prefix = dataset_prefix(entry.id)
        keys = [key for key in node.ports.objects.keys(prefix) if key.split("/")[1] in ("blocks", "data")]
        found.append((node.datasets.head(entry), sorted(keys), node.heads.described(entry).entries))
    assert found[0] == found[1]


# Which message a process dies at: a client says 3 messages of a pull and 5 of a push, a server 3 and 4.
CLIENT_PULLS = [f"talk.say:{when}@{number}" for when in ("before", "after") for number in (1, 2, 3)]
CLIENT_PUSHES = [f"talk.say:{when}@{number}" for when in ("before", "after") for number in (1, 2, 3, 4, 5)]
SERVER_GIVES = CLIENT_PULLS
SERVER_TAKES = [f"talk.say:{when}@{number}" for when in ("before", "after") for number in (1, 2, 3, 4)]
ENDS = ["talk.end:before", "talk.end:after"]
UPLOADS = [f"link.upload:{when}@{number}" for when in ("before", "after") for number in (1, 2)]
LOGS = [f"peer.send_ref:{when}@{number}" for when in ("before", "after") for number in (1, 2)]
STORES = ["object.data.put:before@2", "object.data.put:after@2", "chain.append:before@2", "chain.append:after@2"]
"""While a server takes a push: one slice is stored, the Seed is committed."""
