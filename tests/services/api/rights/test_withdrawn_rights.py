"""A withdrawn right is gone: in next requests, open streams, and waiting work.

Rights are never remembered, so nothing here waits: streams look again by a clock that the test sets.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import httpx
import pytest

from odfabric.model.jobs.job import Job
from odfabric.model.people.account import DatasetRole, OrganisationRole
from odfabric.model.people.audit import THE_NODE, AuditKind
from odfabric.model.people.credential import TokenKind
from odfabric.usecases.ingestion.push_data import PushData
from odfabric.wiring import Node
from odfabric.wiring.node_ports import intercepted
from odfabric_api.auth import RECHECK_S
from odfabric_api.routes.transfer import CHUNK_BYTES
from odfabric_api.sessions import PLAIN_COOKIE, csrf_token
from tests.services.api.intercepting import Around
from tests.services.api.people import People, Scene
from tests.services.api.rules import RULES
from tests.services.api.serving import Served, serving, working

ROW = b'{"event_time":"2026-01-01T00:00:00Z","city":"A"}\n'


@dataclass(frozen=True, slots=True)
class World:
    """A node where carl's access to ann's dataset depends on one right to withdraw."""

    people: People
    served: Served
    around: Around
    scene: Scene

    def cut(self, thread: str) -> None:
        """End what carl's access hangs by."""
        people, carl = self.people, self.people.account("carl")
        audit = people.ports.entry(AuditKind.ACCOUNT_CHANGED, THE_NODE)
        if thread == "role":
            people.grant(self.scene.entry, "carl", None)
        elif thread == "account":
            changed = replace(carl, suspended_at=people.memory.clock.now())
            people.ports.accounts.change(changed, audit=audit)
        elif thread == "token":
            everything = frozenset(TokenKind)
            people.ports.tokens.revoke_all(carl.id, kinds=everything, now=people.memory.clock.now(), audit=audit)
        elif thread == "membership":
            guild = people.account("guild")
            before = people.ports.relations.membership(guild.id, carl.id)
            people.ports.relations.change_membership(before, None, audit=audit)
        elif thread == "organisation":
            changed = replace(people.account("guild"), suspended_at=people.memory.clock.now())
            people.ports.accounts.change(changed, audit=audit)
        elif thread == "visibility":
            people.grant(self.scene.entry, "*", None)

    def mend(self) -> None:
        """All is as it was before any cut."""
        people = self.people
        audit = people.ports.entry(AuditKind.ACCOUNT_CHANGED, THE_NODE)
        for name in ("carl", "guild"):
            found = people.account(name)
            if found.suspended_at is not None:
                people.ports.accounts.change(replace(found, suspended_at=None), audit=audit)
        for name in ("carl", "guild", "*"):
            people.grant(self.scene.entry, name, None) if self._has(name) else None

    def _has(self, name: str) -> bool:
        to = "*" if name == "*" else self.people.account(name).id
        return self.people.ports.relations.grant(self.scene.entry.id, to) is not None  # type: ignore[arg-type]

    def let_in(self, thread: str) -> dict[str, str]:
        """Give carl access by one thread; the headers of his requests, or of a stranger's."""
        self.mend()
        people, entry = self.people, self.scene.entry
        if thread == "visibility":
            people.grant(entry, "*", DatasetRole.READER)
            return {}
        if thread in ("membership", "organisation"):
            people.grant(entry, "guild", DatasetRole.OWNER)
            self._join()
        else:
            people.grant(entry, "carl", DatasetRole.OWNER)
        if thread == "session":
            session = people.session("carl")
            return {"cookie": f"{PLAIN_COOKIE}={session}", "x-csrf-token": csrf_token(session)}
        return people.bearer("carl")

    def _join(self) -> None:
        people = self.people
        guild, carl = people.account("guild"), people.account("carl")
        before = people.ports.relations.membership(guild.id, carl.id)
        if before is None:
            after = replace(
                people.ports.relations.members(guild.id, limit=1)[0],
                member=carl.id,
                role=OrganisationRole.MEMBER,
                version=1,
            )
            people.ports.relations.change_membership(
                None, after, audit=people.ports.entry(AuditKind.MEMBER_CHANGED, THE_NODE)
            )


THREADS = {
    "role": (404, "not-found"),
    "membership": (404, "not-found"),
    "organisation": (404, "not-found"),
    "account": (401, "account-suspended"),
    "token": (401, "token-revoked"),
    "session": (401, "token-revoked"),
}
"""By what an access hangs, and the answer when that is cut."""


def cut_of(thread: str) -> str:
    return "token" if thread == "session" else thread


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    people, around = People(tmp_path_factory.mktemp("node")), Around()
    entry, other = people.add("ann", "shared"), people.add("ann", "other")
    scene = Scene(owner="user", is_public=False, entry=entry, other=other, grants=())
    chance = random.Random(7)
    rows = b"".join(
        b'{"event_time":"2026-01-01T00:00:00Z","city":"%s"}\n' % chance.randbytes(64).hex().encode()
        for _ in range(3 * CHUNK_BYTES // 64)
    )
    job = people.node.requests.push(PushData(dataset=entry.id, body=iter([rows])))
    assert isinstance(job, Job)
    people.memory.finish(job)
    with serving(Node(intercepted(people.node.ports, around), people.memory.settings)) as served:
        yield World(people, served, around, scene)


@pytest.fixture
def client(world: World) -> Iterator[httpx.Client]:
    """One connection that stays open."""
    world.around.before.clear()
    with world.served.client(None) as found:
        yield found
    world.around.before.clear()


@pytest.mark.parametrize("thread", THREADS)
def test_the_next_request_is_refused_at_every_route(world: World, client: httpx.Client, thread: str) -> None:
    headers = world.let_in(thread)
    routes = [(method, path, rule) for (method, path), rule in RULES.items() if "{account}/{dataset}" in path]

    def answers() -> list[tuple[int, str]]:
        found = []
        for method, path, rule in routes:
            asked = rule.request(world.scene)
            asked["headers"] |= headers
            answer = client.request(method, rule.url(path, world.scene), **asked)
            is_problem = answer.headers.get("content-type") == "application/problem+json" and method != "HEAD"
            found.append((answer.status_code, answer.json()["code"] if is_problem else ""))
        return found

    wrong = {
        path: answer
        for answer, (method, path, rule) in zip(answers(), routes, strict=True)
        if answer not in rule.allowed and method != "HEAD"
    }
    assert wrong == {}
    world.cut(cut_of(thread))
    status, code = THREADS[thread]
    assert set(answers()) == {(status, code), (status, "")}


class Seconds:
    """A clock that stands still until its third look: something happens, time moves."""

    def __init__(self, act: Callable[[], None], *, pause_s: float) -> None:
        self.looks = 0
        self._act, self._pause_s = act, pause_s

    def __call__(self) -> float:
        self.looks += 1
        if self.looks == 3:
            self._act()
        return self._pause_s if self.looks >= 3 else 0.0


def slice_of(world: World) -> str:
    (key,) = world.people.memory.objects.keys(f"{world.scene.entry.id.multibase}/data/")
    return f"/{world.scene.shown}/data/{key.rpartition('/')[2]}"


def received(client: httpx.Client, path: str, headers: dict[str, str]) -> tuple[int, int]:
    """How many bytes came, and how many were announced."""
    size = 0
    with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code in (200, 206)
        announced = int(answer.headers["content-length"])
        try:
            for piece in answer.iter_raw():
                size += len(piece)
        except httpx.RemoteProtocolError:
            pass
    return size, announced


@pytest.mark.parametrize("thread", [*THREADS, "visibility"])
def test_a_download_ends_when_its_right_is_withdrawn(world: World, client: httpx.Client, thread: str) -> None:
    headers = world.let_in(thread)
    state = world.served.app.state
    before = state.monotonic
    state.monotonic = Seconds(lambda: world.cut(cut_of(thread)), pause_s=RECHECK_S)
    try:
        size, announced = received(client, slice_of(world), headers)
    finally:
        state.monotonic = before
    assert size == CHUNK_BYTES < announced


def test_a_download_goes_on_while_the_right_is_there(world: World, client: httpx.Client) -> None:
    """Even if its account changes otherwise."""
    headers = world.let_in("role")
    state, looked, people = world.served.app.state, [], world.people

    def rename() -> None:
        looked.append(1)
        carl = replace(people.account("carl"), display_name=f"Carl {len(looked)}")
        people.ports.accounts.change(carl, audit=people.ports.entry(AuditKind.ACCOUNT_CHANGED, THE_NODE))

    before = state.monotonic
    for pause_s in (RECHECK_S, RECHECK_S / 2):
        state.monotonic = Seconds(rename, pause_s=pause_s)
        try:
            size, announced = received(client, slice_of(world), headers)
        finally:
            state.monotonic = before
        assert size == announced > 2 * CHUNK_BYTES
    assert len(looked) == 2
    assert RECHECK_S <= 2.0


class Late(Seconds):
    """A clock of slow requests: something happens before its look at the body."""

    def __call__(self) -> float:
        self.looks = max(self.looks, 1)
        return super().__call__()


STREAMED = ("/ingest", "/-/new/file", "/-/push/try")
"""Routes that take a file in as it comes."""


@pytest.mark.parametrize("thread", THREADS)
def test_a_request_that_arrives_slowly_has_the_rights_of_its_end(
    world: World, client: httpx.Client, thread: str
) -> None:
    """Who holds a request open does not keep what is withdrawn meanwhile.

    The policy was asked before the body came.
    """
    state = world.served.app.state
    before, looked = state.monotonic, 0
    for (method, path), rule in RULES.items():
        if (rule.json is None and rule.body is None) or not rule.needs or path.endswith(STREAMED):
            continue  # looked at again by the job that works on the file
        headers = world.let_in(thread)
        asked = rule.request(world.scene)
        asked["headers"] |= headers
        state.monotonic = late = Late(lambda: world.cut(cut_of(thread)), pause_s=RECHECK_S)
        try:
            answer = client.request(method, rule.url(path, world.scene), **asked)
        finally:
            state.monotonic = before
        if late.looks < 3:
            assert answer.status_code in (401, 403, 404), f"{path} was refused before its body was read"
            continue
        looked += 1
        status, code = THREADS[thread]
        if status == 404 and "{dataset}" not in path:
            if thread == "role":
                continue  # the role is one on a dataset
            status, code = 403, "access-denied"
        assert (answer.status_code, answer.json()["code"]) == (status, code), path
    assert looked > 15


@pytest.mark.parametrize("thread", THREADS)
def test_a_push_that_arrives_while_its_right_goes_is_not_committed(
    world: World, client: httpx.Client, thread: str
) -> None:
    """The body was let in; the job is not done."""
    headers = world.let_in(thread)
    head = world.people.node.datasets.head(world.scene.entry)
    world.around.before["job.enqueue"] = lambda: world.cut(cut_of(thread))
    with working(world.people.node):
        answer = client.post(f"/{world.scene.shown}/ingest", content=ROW, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == THREADS[thread]
    assert world.people.node.datasets.head(world.scene.entry) == head


@pytest.mark.parametrize("thread", THREADS)
def test_a_cursor_is_worth_nothing_to_whoever_has_lost_the_right(
    world: World, client: httpx.Client, thread: str
) -> None:
    headers = world.let_in(thread)
    path = f"/{world.scene.shown}/cursors"
    made = client.post(path, headers=headers, json={"consumer": f"by-{thread}"})
    assert made.status_code == 201
    asked = {"headers": headers, "json": {"fence": made.json()["fence"], "limit": 1}}
    assert client.post(f"{path}/by-{thread}/fetch", **asked).json()["event"] is not None  # type: ignore[arg-type]
    world.cut(cut_of(thread))
    answer = client.post(f"{path}/by-{thread}/fetch", **asked)  # type: ignore[arg-type]
    assert (answer.status_code, answer.json()["code"]) == THREADS[thread]
