"""A watermark far ahead over REST: refused, and with force a right of its own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from odfabric.model.people.account import DatasetRole
from tests.services.api.people import People
from tests.services.api.serving import Served, serving

FAR = "9999-12-31T00:00:00Z"


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    found = People(tmp_path_factory.mktemp("people"))
    found.grant(found.add("ann", "rows"), "mats", DatasetRole.MAINTAINER)
    return found


@pytest.fixture(scope="module")
def served(people: People) -> Iterator[Served]:
    with serving(people.node) as found:
        yield found


def put(served: Served, people: People, who: str, **body: object) -> httpx.Response:
    with served.client(None) as client:
        return client.put("/ann/rows/watermark", headers=people.bearer(who), json=body)


@pytest.mark.parametrize("who", ["ann", "mats"])
def test_it_is_refused_by_name(people: People, served: Served, who: str) -> None:
    answer = put(served, people, who, watermark=FAR)
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid-request")
    assert "watermark_ahead_s_max" in answer.json()["hint"]


def test_force_takes_the_right_to_rewrite(people: People, served: Served) -> None:
    assert put(served, people, "mats", watermark=FAR, force=True).status_code == 403
    done = put(served, people, "ann", watermark=FAR, force=True)
    assert (done.status_code, done.json()["upToDate"]) == (200, False)


def test_a_time_that_has_come_takes_no_force(people: People, served: Served) -> None:
    now = people.memory.clock.now().truncated_to_millis()
    assert put(served, people, "mats", watermark=str(now)).status_code == 200
