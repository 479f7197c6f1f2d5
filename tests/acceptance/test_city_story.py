"""A city publishes by a schedule; a subscriber that was off gets what it missed.

Two levels of derivative datasets follow by themselves, and a subscriber that was switched off receives exactly what it
missed, in order."""

from __future__ import annotations

import json
import time
from typing import Any

from odfabric.formats.webhooks.webhook_signature import parse_secret, verify
from odfabric.model.instant import Instant
from tests.acceptance.conftest import Web
from tests.support.loopback_http import Seen, reply
from tests.support.node_process import NodeProcess, Odf
from tests.support.stories import csv, derivative, hourly, polled, reading
from tests.support.waiting import wait_until

ROUNDS_MISSED = 2
FOLLOWED_S_MAX = 60.0
"""The schedule polls each ten seconds; the machine may be busy."""


class Page:
    """What the city shows at its address: two readings of each hour."""

    def __init__(self) -> None:
        self.hours, self.rows = 0, list[dict[str, object]]()
        self.add_hour()

    def add_hour(self) -> None:
        self.rows += [reading(self.hours * 60 + minute) for minute in (10, 40)]
        self.hours += 1

    def serve(self, seen: Seen) -> bytes:
        tag = f'"{len(self.rows)}"'
        known = seen.headers.get("if-none-match") == tag
        return reply(304, headers={"ETag": tag}) if known else reply(200, csv(*self.rows).encode(), {"ETag": tag})


class Subscriber:
    """Keeps the data of the events that it has taken; while it is off, it takes none."""

    def __init__(self) -> None:
        self.on, self.secret, self.taken, self.refused = True, b"", list[dict[str, Any]](), 0

    def receive(self, seen: Seen) -> bytes:
        verify(seen.headers, seen.body, secrets=[self.secret], now=Instant(time.time_ns()))
        if not self.on:
            self.refused += 1
            return reply(503)
        self.taken.append(json.loads(seen.body)["data"])
        return reply(204)


def test_a_schedule_feeds_two_levels_and_a_subscriber_that_was_off_misses_nothing(
    node: NodeProcess, remote_odf: Odf, web: Web
) -> None:
    page, subscriber = Page(), Subscriber()
    web.handlers.update({"/city.csv": page.serve, "/city-events": subscriber.receive})
    fetch = f"{{kind: Url, url: '{web.server.url('/city.csv')}'}}"
    node.create(polled("city", fetch=fetch, merge="{kind: Ledger, primaryKey: [event_time, city]}"))
    node.create(hourly("city.hourly", of="city"))
    node.create(derivative("city.busy", of="city.hourly", query="SELECT * FROM `city.hourly` WHERE n > 1"))
    hook = {"url": web.server.url("/city-events"), "onlyWithData": True, "rows": True}
    made = node.http.post("/local/city.busy/subscriptions", json=hook).json()
    subscriber.secret = parse_secret(made["secret"])

    remote_odf.json("flow", "set", "city", "poll", "--every", "10s")
    publish(page, node)
    wait_until(lambda: len(subscriber.taken) == 1, what="the event of the first published hour")

    subscriber.on = False
    for _ in range(ROUNDS_MISSED):
        publish(page, node)
    assert len(subscriber.taken) == 1
    subscriber.on = True
    first_missed = int(subscriber.taken[0]["sequence"]) + 1
    node.http.post(f"/local/city.busy/subscriptions/{made['id']}/replay", json={"fromSequence": first_missed})
    wait_until(lambda: subscriber.taken[-1]["newHead"] == node.head("city.busy"), what="all that was missed")

    assert subscriber.refused >= 1
    sequences = [int(data["sequence"]) for data in subscriber.taken]
    assert sequences == list(range(sequences[0], sequences[0] + 1 + ROUNDS_MISSED))
    heads = [(data["oldHead"], data["newHead"]) for data in subscriber.taken]
    assert [old for old, _ in heads[1:]] == [new for _, new in heads[:-1]]
    assert net_rows(subscriber.taken) == {str(row["event_time"]): row["n"] for row in state(node, "city.busy")}


def publish(page: Page, node: NodeProcess) -> None:
    """Readings of the next hour, which complete the one before.

    Wait until the schedule has brought that to the second level.
    """
    page.add_hour()
    complete = [{"n": 2, "total": 2}] * (page.hours - 1)
    wait_until(
        lambda: [{"n": row["n"], "total": row["total"]} for row in state(node, "city.busy")] == complete,
        deadline_s=FOLLOWED_S_MAX,
        what="the second level",
    )


def state(node: NodeProcess, name: str) -> list[dict[str, Any]]:
    """The rows that hold now."""
    rows: list[dict[str, Any]] = node.http.get(f"/local/{name}/state").json().get("data", [])
    return rows


def net_rows(events: list[dict[str, Any]]) -> dict[str, int]:
    """What is left of the records of these events: value `n` by event time."""
    held: dict[str, int] = {}
    for event in events:
        assert event["next"] is None
        for row in (row for change in event["changes"] for row in change["rows"]):
            if row["op"] in ("retract", "correct_from"):
                assert held.pop(row["event_time"]) == row["n"]
            else:
                held[row["event_time"]] = row["n"]
    return held
