"""A lost node comes back from a backup that was made while it worked."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from odfabric.formats.webhooks.webhook_signature import parse_secret, verify
from odfabric.model.instant import Instant
from tests.acceptance.conftest import Web
from tests.support.engines.class_archive import class_archive
from tests.support.loopback_http import Seen, reply
from tests.support.node_process import NodeProcess, Odf, node_process
from tests.support.stories import derivative, reading, root
from tests.support.waiting import wait_until

NAMES = ("readings", "readings.warm")


class Subscriber:
    """Events of one subscription by sequence, as its receiver has taken them."""

    def __init__(self) -> None:
        self.secret, self.taken = b"", dict[int, dict[str, Any]]()

    def receive(self, seen: Seen) -> bytes:
        verify(seen.headers, seen.body, secrets=[self.secret], now=Instant(time.time_ns()))
        data = json.loads(seen.body)["data"]
        self.taken[int(data["sequence"])] = data
        return reply(204)


def test_a_lost_node_comes_back_and_its_subscribers_miss_nothing(tmp_path: Path, web: Web) -> None:
    subscriber = Subscriber()
    web.handlers["/backed-up"] = subscriber.receive
    reached = ("--egress-allow", web.server.place)
    environment = {"ODF_EGRESS_PORTS": json.dumps([web.server.port])}
    if archive := class_archive():
        environment["ODF_ENGINE_CACHE"] = str(archive)
    first, second, place = tmp_path / "first", tmp_path / "second", tmp_path / "backups"

    with node_process(first, *reached, **environment) as node:
        node.create(root("readings"))
        node.create(derivative("readings.warm", of="readings", query="SELECT * FROM readings WHERE value > 10"))
        made = node.http.post("/local/readings.warm/subscriptions", json={"url": web.server.url("/backed-up")}).json()
        subscriber.secret = parse_secret(made["secret"])
        push_and_follow(node, subscriber, minute=0)
        saved = Odf(options=("--workspace", str(first))).json("backup", str(place))
        assert saved["damaged"] == {}
        heads = {name: node.head(name) for name in NAMES}
        last, taken = max(subscriber.taken), dict(subscriber.taken)
    shutil.rmtree(first)

    restored = Odf(options=("--workspace", str(second))).json("restore", str(place))
    assert [one["outcome"] for one in restored["datasets"]] == ["up to date"] * 2
    with node_process(second, *reached, **environment) as node:
        assert {name: node.head(name) for name in NAMES} == heads
        for name in NAMES:
            assert node.verify(name) == {"ok": True, "errors": []}
        push_and_follow(node, subscriber, minute=1)
        assert max(subscriber.taken) == last + 1, "the sequence goes on"
        assert subscriber.taken[last + 1]["oldHead"] == heads["readings.warm"], "from where it was"
        assert {sequence: subscriber.taken[sequence] for sequence in taken} == taken


def push_and_follow(node: NodeProcess, subscriber: Subscriber, *, minute: int) -> None:
    """Push a row to the derivative, and wait until its subscriber hears of it."""
    node.push("readings", [reading(minute, value=20)])
    wait_until(
        # The row first: the head of a moment before it is that of an event which came long ago.
        lambda: (
            len(node.tail("readings.warm")) == minute + 1
            and any(data["newHead"] == node.head("readings.warm") for data in [*subscriber.taken.values()])
        ),
        deadline_s=60,
        what="the event of the derivative dataset",
    )
