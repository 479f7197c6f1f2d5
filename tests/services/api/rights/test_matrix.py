"""Every actor at every route, on every kind of dataset: the pure policy's answers.

Expected is what `domain.people.access` says of the rule in `rules.RULES`; observed is a request to a served node. Refused requests change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import httpx
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute

from odfabric.adapters.unreliable.interception import Interceptor
from odfabric.domain.people.access import AccessPolicy
from odfabric.settings import Settings
from odfabric.wiring import Node
from odfabric.wiring.node_ports import intercepted
from odfabric_api.auth import POLICIES
from tests.services.api.documented import ROUTES
from tests.services.api.needs import Refused, Rule
from tests.services.api.people import Actor, People, Scene
from tests.services.api.rules import RULES
from tests.services.api.serving import Served, serving
from tests.support.turns import NIGHTLY, today

T = TypeVar("T")
ENDPOINTS = [(method, route) for route in ROUTES for method in sorted(route.methods or ())]
OF_NO_RIGHTS = {"token.use", "audit.refuse"}
"""Effects that a refused request may have."""


class Effects(Interceptor):
    """Which effects requests have had."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def around(self, call: str, act: Callable[[], T], *, effect: bool) -> T:
        if effect and call not in OF_NO_RIGHTS:
            self.seen.append(call)
        return act()


@dataclass(frozen=True, slots=True)
class World:
    """The people's node, closed or open for reading by everybody, and its datasets."""

    people: People
    scenes: tuple[Scene, ...]
    policy: AccessPolicy
    served: Served
    effects: Effects


SCENES = (("user", False), ("user", True), ("organisation", False), ("organisation", True), ("system", False))


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> People:
    return People(tmp_path_factory.mktemp("node"))


@pytest.fixture(scope="module")
def scenes(people: People) -> tuple[Scene, ...]:
    return tuple(
        people.scene(owner, f"{owner}-{is_public}".lower(), is_public=is_public) for owner, is_public in SCENES
    )


@pytest.fixture(scope="module", params=["closed", "open"])
def world(request: pytest.FixtureRequest, people: People, scenes: tuple[Scene, ...]) -> Iterator[World]:
    is_open = request.param == "open"
    effects = Effects()
    settings: Settings = people.memory.settings.model_copy(update={"anonymous_read": is_open})
    node = Node(intercepted(people.node.ports, effects), settings)
    with serving(node) as served:
        yield World(people, scenes, AccessPolicy(anonymous_read=is_open), served, effects)


def policies(dependant: Dependant) -> Iterator[object]:
    for below in dependant.dependencies:
        if isinstance(below.call, POLICIES):
            yield below.call
        yield from policies(below)


@pytest.mark.parametrize(("method", "route"), ENDPOINTS, ids=lambda value: getattr(value, "path", value))
def test_every_route_has_a_rule_and_declares_it(method: str, route: APIRoute) -> None:
    assert (method, route.path) in RULES, "a new route: say in tests/services/api/rules.py what it needs"
    needs = RULES[method, route.path].needs
    declared = {needs[0].policy} if needs else set()
    assert set(policies(route.dependant)) == declared
    assert None not in declared
    assert "{dataset" not in route.path or needs


def test_no_rule_is_for_a_route_that_is_gone() -> None:
    assert set(RULES) == {(method, route.path) for method, route in ENDPOINTS}


@pytest.mark.parametrize(("method", "route"), ENDPOINTS, ids=lambda value: getattr(value, "path", value))
def test_everybody_gets_the_answer_of_the_policy(world: World, method: str, route: APIRoute) -> None:
    rule = RULES[method, route.path]
    wrong = []
    with world.served.client(None) as client:
        for scene in scenes_of(world, route.path):
            for actor in world.people.actors(scene, with_refused=scene is world.scenes[0]):
                world.effects.seen.clear()
                answer = asked(client, method, route.path, rule, scene, actor)
                problem = judged(world, method, rule, scene, actor, answer)
                if problem is not None:
                    wrong.append(f"{scene.shown}, public: {scene.is_public}, {actor.name}: {problem}")
    assert wrong == []


def scenes_of(world: World, template: str) -> list[Scene]:
    """All owners, and every visibility, where they make a difference.

    A page has the policy of the routes beside it: fewer of each are enough.
    """
    is_page = template.startswith("/-") or "/-/" in template
    if world.policy.anonymous_read and is_page and not NIGHTLY and (today() + len(template)) % 2:
        return []  # the other half of the pages has its day tomorrow
    if world.policy.anonymous_read:
        every = "{dataset" in template and not is_page
        return [scene for scene in world.scenes if not scene.is_public] if every else [world.scenes[0]]
    if is_page and "{dataset" in template:
        return [scene for scene in world.scenes if scene.is_public == (scene.owner == "organisation")][:2]
    return [scene for scene in world.scenes if "{dataset" in template or not scene.is_public]


def asked(client: httpx.Client, method: str, template: str, rule: Rule, scene: Scene, actor: Actor) -> httpx.Response:
    request = rule.request(scene)
    request["headers"] |= actor.headers
    client.cookies.clear()
    return client.request(method, rule.url(template, scene), **request)


def judged(world: World, method: str, rule: Rule, scene: Scene, actor: Actor, answer: httpx.Response) -> str | None:
    """What is wrong with an answer."""
    refusal = actor.refusal(method)
    expected: Refused | None = None
    if rule.needs and refusal is not None:
        expected = Refused(*refusal)
    elif rule.needs and actor.subject is not None:
        expected = rule.expected(world.policy, actor.subject, scene)
    code, message = told(answer)
    seen = f"{answer.status_code} {code} {message}"
    if expected is None:
        fits = any(answer.status_code == status and code in (wanted, None) for status, wanted in rule.allowed)
        return None if fits else f"allowed, but answered {seen}"
    fits = answer.status_code == expected.status and code in (expected.code, None)
    if not fits or (message is not None and not message.startswith(expected.message)):
        return f"expected {expected}, but answered {seen}"
    return f"refused, but did {world.effects.seen}" if world.effects.seen else None


def told(answer: httpx.Response) -> tuple[str | None, str | None]:
    """Code and message of a problem.

    None where the answer has no body that gives them.
    """
    if answer.request.method == "HEAD":
        return None, None
    if answer.headers.get("content-type") != "application/problem+json":
        return "", ""
    problem = answer.json()
    return problem["code"], problem["message"]
