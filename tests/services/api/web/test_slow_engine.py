"""Pages while the engine is silent: at once, with computed parts later."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

import httpx
import pytest

from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.model.people.account import DatasetRole
from odfabric_api.web.routes import PAGES
from odfabric_api.web.routes.dataset import rows
from tests.services.api.browsing import Browsers, text_of
from tests.services.api.documented import ROUTES
from tests.services.api.people import People, Scene
from tests.services.api.rules import RULES
from tests.services.api.serving import ANSWER_S_MAX, serving, working
from tests.support.waiting import wait_until

T = TypeVar("T")
_OF_PAGES = {route.path for router in PAGES for route in router.routes if hasattr(route, "path")}
PAGE_PATHS = sorted({route.path for route in ROUTES if "GET" in (route.methods or ()) and route.path in _OF_PAGES})
RECORDS = "".join(
    f'{{"event_time":"2026-01-0{day}T00:00:00Z","city":{city},"value":{value}}}\n'
    for day, city, value in ((1, '"Ulm"', "7"), (2, '"Aachen"', "null"), (3, '"Bonn"', "-5"))
)


class HangingEngine(Interceptor):
    """Lets calls of the engine through, or holds them until they are let go.

    `held` counts them.
    """

    def __init__(self) -> None:
        self.go_on = threading.Event()
        self.go_on.set()
        self.held = 0

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        if call.startswith("engine.") and not self.go_on.is_set():
            self.held += 1
            assert self.go_on.wait(ANSWER_S_MAX)
        return act()


@dataclass(frozen=True, slots=True)
class World:
    browsers: Browsers
    scene: Scene
    engine: HangingEngine


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    people = People(tmp_path_factory.mktemp("node"), health_wait_s_max=0.2)
    engine = HangingEngine()
    people.memory.restart(engine)
    entry = people.add("ann", "cities")
    people.grant(entry, "*", DatasetRole.READER)
    scene = Scene(owner="user", is_public=True, entry=entry, other=entry, grants=())
    with serving(people.node) as found:
        with (
            working(people.node),
            found.client(people.bearer("ann")["authorization"].removeprefix("Bearer ")) as client,
        ):
            for records in (RECORDS, RECORDS.replace("2026-01", "2026-02")):
                assert client.post("/ann/cities/ingest", content=records).status_code == 200
        yield World(Browsers(people, found), scene, engine)


@pytest.fixture
def world(served: World) -> Iterator[World]:
    """The engine hangs."""
    served.engine.go_on.clear()
    served.engine.held = 0
    yield served
    served.engine.go_on.set()


@pytest.fixture
def ann(world: World) -> Iterator[httpx.Client]:
    with world.browsers.open("ann") as found:
        yield found


def test_every_page_answers_while_the_engine_hangs(world: World) -> None:
    answered = {}
    with ExitStack() as stack:
        browser = {name: stack.enter_context(world.browsers.open(name)) for name in ("ann", "root")}
        for path in PAGE_PATHS:
            rule = RULES["GET", path]
            asked = rule.request(world.scene)
            name = "root" if path.startswith("/-/admin") else "ann"
            answered[path] = browser[name].get(rule.url(path, world.scene), params=asked["params"]).status_code
    assert len(answered) >= 40
    assert {path: status for path, status in answered.items() if status >= 429} == {}


def test_pages_of_blocks_answer_while_the_engine_hangs(world: World, ann: httpx.Client) -> None:
    newest, oldest = (re.findall(r"/-/blocks/(f1620\w+)", ann.get("/ann/cities/-/history").text)[at] for at in (0, -1))
    for path in (f"blocks/{newest}", f"compare?older={oldest}&newer={newest}", "rows", "rows?view=state"):
        assert ann.get(f"/ann/cities/-/{path}").status_code == 200


def test_filtered_and_sorted_records_follow_the_page(world: World, ann: httpx.Client) -> None:
    for asked in ({"column": "city", "value": "Ulm"}, {"sort": "value", "down": "true", "skip": "50"}):
        found = ann.get("/ann/cities/-/rows", params=asked)
        assert found.status_code == 200
        assert "Show the records" in text_of(found)
        assert (
            f'hx-get="/ann/cities/-/rows?view=changelog&amp;{"column" if "column" in asked else "sort"}=' in found.text
        )
        assert '<noscript><meta http-equiv="refresh"' in found.text
    assert world.engine.held == 0


WHICH_STATE = re.compile(r"Known after block \d+, ")


def test_a_large_state_follows_the_page(world: World, ann: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert WHICH_STATE.search(text_of(ann.get("/ann/cities/-/rows?view=state")))
    monkeypatch.setattr(rows, "STATE_CELLS_AT_ONCE_MAX", 1)
    first = ann.get("/ann/cities/-/rows?view=state")
    assert "Show the records" in text_of(first)
    assert not WHICH_STATE.search(text_of(first))
    assert WHICH_STATE.search(text_of(ann.get("/ann/cities/-/rows?view=state&wait=true")))


def test_only_some_columns_are_shown_at_once(world: World, ann: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "COLUMNS_SHOWN", 2)
    for view, columns in (("changelog", ["offset", "op", "system_time"]), ("state", ["event_time", "city", "value"])):
        first = ann.get(f"/ann/cities/-/rows?view={view}")
        assert re.findall(r'<th scope="col">(\w+)</th>', first.text) == columns[:2]
        assert "More columns" in text_of(first)
        second = ann.get(f"/ann/cities/-/rows?view={view}&columns=2")
        assert re.findall(r'<th scope="col">(\w+)</th>', second.text)[0] == columns[2]
    assert "Aachen" in text_of(ann.get("/ann/cities/-/rows?columns=4"))


def test_the_profile_says_what_the_files_say_until_it_is_computed(world: World, ann: httpx.Client) -> None:
    found = ann.get("/ann/cities/-/profile")
    shown = text_of(found)
    assert "statistics in the files of 6 records" in shown
    assert "city STRING 0 Aachen Ulm" in shown
    assert "value BIGINT 2 (33.3 %) -5 7" in shown
    assert "event_time TIMESTAMP 0 2026-01-01T00:00:00Z 2026-02-03T00:00:00Z" in shown
    assert 'href="/ann/cities/-/profile?exact=true&amp;first=0"' in found.text
    assert 'hx-get="/ann/cities/-/profile?exact=true&amp;first=0"' in found.text
    assert "Different" not in shown


def test_the_exact_profile_waits_for_the_engine(world: World, ann: httpx.Client) -> None:
    statuses: list[int] = []
    asking = threading.Thread(target=lambda: statuses.append(ann.get("/ann/cities/-/profile?exact=true").status_code))
    asking.start()
    wait_until(lambda: world.engine.held == 1, what="the engine's work")
    assert statuses == []
    world.engine.go_on.set()
    asking.join(ANSWER_S_MAX)
    assert statuses == [200]
