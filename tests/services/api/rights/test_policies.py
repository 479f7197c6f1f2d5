"""The route inventory is the application's, and credential headers are strict.

What each route needs is held against `rules.RULES` by `test_matrix`; what strangers learn of private datasets by `test_hiding`.
"""

from __future__ import annotations

import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.routing import Route

from odfabric.domain.people.names import RESERVED_ACCOUNT_NAMES
from odfabric.errors import InvalidRequest
from odfabric.testing.memory_node import MemoryNode
from odfabric_api.app import ROUTERS
from odfabric_api.auth import Authentication
from tests.services.api.documented import ROUTES
from tests.services.api.serving import TOKEN, Served
from tests.usecases.manifests import ROOT


def endpoints() -> list[tuple[str, APIRoute]]:
    return [(method, route) for route in ROUTES for method in sorted(route.methods or ())]


def test_the_inventory_is_the_application_s(served: Served) -> None:
    """A route that is added elsewhere would be in no test here."""
    documented = {(method.upper(), path) for path, found in served.app.openapi()["paths"].items() for method in found}
    assert documented == {(method, route.path) for method, route in endpoints() if route.include_in_schema}
    assert [route.path for route in served.app.routes if isinstance(route, Route)] == ["/openapi.json"]
    assert len(served.app.routes) == 1 + len(ROUTERS)


def test_no_account_can_have_a_name_that_hides_a_route() -> None:
    first = {route.path.split("/")[1] for _, route in endpoints()} | {"openapi.json"}
    # Pages are below `/` and `/-`, keys below `/.well-known`: none of these is a name.
    assert {part for part in first if not part.startswith("{")} - {"", "-", ".well-known"} <= RESERVED_ACCOUNT_NAMES


@pytest.fixture(scope="module")
def existing(memory: MemoryNode) -> str:
    return str(memory.add(ROOT).alias.name)


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


def test_two_tokens_are_a_bad_request(stranger: httpx.Client) -> None:
    """Whatever stands between the two would choose another one than the node."""
    headers = [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {TOKEN}")]
    assert stranger.get("/datasets", headers=headers).status_code == 400


@pytest.mark.parametrize("token", ["odf_wrong", TOKEN + "0", TOKEN[:-1], TOKEN.upper()])
def test_a_token_that_is_nearly_the_operator_s_is_none(stranger: httpx.Client, token: str) -> None:
    assert stranger.get("/datasets", headers={"authorization": f"Bearer {token}"}).status_code == 401


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_is_read_in_any_case_of_letters(stranger: httpx.Client, scheme: str) -> None:
    assert stranger.get("/datasets", headers={"authorization": f"{scheme} {TOKEN}"}).status_code == 200


@pytest.mark.parametrize("token", ["", "with space", "\xe9", "line\nend", "a" * 513])
def test_a_node_does_not_start_with_a_token_that_no_header_carries(memory: MemoryNode, token: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Authentication(memory.node, token)
    assert token not in str(caught.value) or not token


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
