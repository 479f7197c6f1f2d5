"""Every route has a policy, and strangers learn nothing: the inventory of routes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import httpx
import pytest
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.routing import Route

from odfabric.errors import InvalidRequest
from odfabric.testing.memory_node import MemoryNode
from odfabric_api.app import ROUTERS
from odfabric_api.auth import POLICIES, Authentication, RequiresDataset, RequiresPullable
from tests.services.api.documented import ROUTES
from tests.services.api.serving import TOKEN, Served
from tests.usecases.manifests import ROOT

# Signing in needs no credential; the other routes say nothing of anybody. This list may only shrink.
PUBLIC = {
    ("GET", "/assets/runtime-config.json"),
    ("GET", "/device"),
    ("GET", "/docs"),
    ("GET", "/info"),
    ("GET", "/login"),
    ("GET", "/oidc/{provider}/callback"),
    ("GET", "/oidc/{provider}/start"),
    ("GET", "/platform/token/validate"),
    ("GET", "/setup"),
    ("GET", "/system/health"),
    ("POST", "/device"),
    ("POST", "/login"),
    ("POST", "/platform/login"),
    ("POST", "/platform/token/device"),
    ("POST", "/platform/token/device/authorization"),
    ("POST", "/session"),
    ("POST", "/setup"),
}

ANY_HASH = "f1620" + "ab" * 32
ANY_ID = "did:odf:fed01df230b49615d175307d580c33d6fda61fc7b9aec91df0f5c1a5ebe3b8cbfee02"


def dependencies(dependant: Dependant) -> Iterator[object]:
    for below in dependant.dependencies:
        yield below.call
        yield from dependencies(below)


def endpoints() -> list[tuple[str, APIRoute]]:
    return [(method, route) for route in ROUTES for method in sorted(route.methods or ())]


def filled(path: str, *, dataset: str) -> str:
    values = {"account": "local", "dataset": dataset, "dataset_id": ANY_ID, "name": ANY_HASH}
    return re.sub(r"{(\w+)}", lambda match: values.get(match[1], "0" * 32), path)


def test_the_inventory_is_the_application_s(served: Served) -> None:
    """A route that is added elsewhere would be in no test here."""
    documented = {(method.upper(), path) for path, found in served.app.openapi()["paths"].items() for method in found}
    assert documented == {(method, route.path) for method, route in endpoints() if route.include_in_schema}
    assert [route.path for route in served.app.routes if isinstance(route, Route)] == ["/openapi.json"]
    assert len(served.app.routes) == 1 + len(ROUTERS)


@pytest.mark.parametrize(("method", "route"), endpoints(), ids=lambda value: getattr(value, "path", value))
def test_every_route_declares_a_policy(method: str, route: APIRoute) -> None:
    policies = [call for call in dependencies(route.dependant) if isinstance(call, POLICIES)]
    assert bool(policies) != ((method, route.path) in PUBLIC)
    if "{dataset}" in route.path:
        assert any(isinstance(call, RequiresDataset | RequiresPullable) for call in policies)


def test_no_public_route_is_forgotten_in_the_list() -> None:
    assert {(method, route.path) for method, route in endpoints()} >= PUBLIC


@pytest.fixture(scope="module")
def existing(memory: MemoryNode) -> str:
    return str(memory.add(ROOT).alias.name)


@pytest.mark.parametrize(("method", "route"), endpoints(), ids=lambda value: getattr(value, "path", value))
def test_a_token_that_does_not_count_opens_no_route(
    stranger: httpx.Client, existing: str, method: str, route: APIRoute
) -> None:
    if (method, route.path) in PUBLIC:
        return
    path = filled(route.path, dataset=existing)
    for token in ("odf_wrong", TOKEN + "0", TOKEN[:-1], TOKEN.upper()):
        headers = {"authorization": f"Bearer {token}"}
        assert stranger.request(method, path, headers=headers).status_code == 401


@pytest.mark.parametrize(
    "header",
    [
        TOKEN,
        f"Basic {TOKEN}",
        f"Bearer  {TOKEN}",
        f"Bearer {TOKEN} x",
        "Bearer",
        "Bearer a,b",
        f"Token {TOKEN}",
        "Bearer \xe9",
    ],
)
def test_a_header_that_is_no_bearer_token_is_a_bad_request(stranger: httpx.Client, header: str) -> None:
    answer = stranger.get("/datasets", headers={"authorization": header.encode("latin-1")})
    assert (answer.status_code, answer.json()["message"]) == (400, "Invalid Bearer token header")


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_read_in_any_case_of_letters(stranger: httpx.Client, scheme: str) -> None:
    assert stranger.get("/datasets", headers={"authorization": f"{scheme} {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("token", ["", "with space", "\xe9", "line\nend", "a" * 513])
def test_a_node_does_not_start_with_a_token_that_no_header_carries(memory: MemoryNode, token: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Authentication(memory.node, token)
    assert token not in str(caught.value) or not token


def dataset_endpoints() -> list[tuple[str, APIRoute]]:
    return [(method, route) for method, route in endpoints() if "{dataset}" in route.path]


def shape(answer: httpx.Response, name: str) -> tuple[int, str, str]:
    headers = {key: value for key, value in answer.headers.items() if key not in ("date", "content-length")}
    return answer.status_code, str(headers), answer.text.replace(name, "NAME")


@pytest.mark.parametrize(("method", "route"), dataset_endpoints(), ids=lambda value: getattr(value, "path", value))
@pytest.mark.parametrize("params", [{}, {"limit": "nonsense"}], ids=["plain", "bad-parameter"])
def test_to_strangers_a_private_dataset_looks_like_a_missing_one(
    stranger: httpx.Client, existing: str, method: str, route: APIRoute, params: dict[str, str]
) -> None:
    """Status, headers and words; also where the rest of the request is wrong, and for names that cannot be."""
    content = b"no json" if method == "POST" else None
    seen = {
        shape(stranger.request(method, filled(route.path, dataset=name), content=content, params=params), name)
        for name in (existing, existing.upper(), "missing", "no--name")
    }
    assert len(seen) == 1


def test_whoever_may_know_is_told_what_is_wrong_with_a_name(client: httpx.Client) -> None:
    assert client.get("/local/missing/tail").status_code == 404
    assert client.get("/nobody/missing/tail").status_code == 404
    assert client.get("/datasets/x/tail").status_code == 404
    for name in ("no--name", "a" * 101, "%C3%A9", "a%20b", "..", "."):
        answer = (
            client.get(f"/local/{name}/tail") if name not in ("..", ".") else client.get(f"/local/%2E{name[1:]}/tail")
        )
        assert (answer.status_code, answer.json()["code"]) == (400, "invalid-name")


def test_names_are_found_in_any_case_of_letters(client: httpx.Client, existing: str) -> None:
    assert client.get(f"/LOCAL/{existing.upper()}/refs/head").status_code == 200
