"""A token that somebody has found: whose it is, what it may, and ending it."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric.model.people.account import Account
from odfabric.model.people.credential import AccessToken
from odfabric.usecases.people.tokens import revoke_token, state_of
from odfabric_api.auth import Admin, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.bodies.token_requests import inspected
from odfabric_api.page_route import PageRoute
from odfabric_api.web.pages import page, see_other
from odfabric_api.web.submitted import submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

TOKENS = "/-/admin/tokens"


@router.get(TOKENS)
def get_tokens(request: Request, caller: Admin) -> Response:
    """The form into which a token is pasted."""
    return _tokens(request, None)


@router.post(TOKENS)
async def post_tokens(request: Request, caller: Admin) -> Response:
    """Look at a token. Its text is in no address, and not in the answer."""
    form = await read_form(request, frozenset({"token"}))
    return await submitted(
        request,
        lambda: _tokens(request, inspected(form.get("token", "").strip(), caller, node_of(request))),
        lambda error, status: _tokens(request, None, refusal=error, status=status),
    )


@router.post(f"{TOKENS}/revoke")
async def post_revoke(request: Request, caller: Admin) -> Response:
    """End it for good."""
    form = await read_form(request, frozenset({"id"}))

    def act() -> Response:
        revoke_token(form.get("id", ""), subject=caller, ports=node_of(request).people)
        return see_other(TOKENS, notice="revoked")

    return await submitted(request, act, lambda error, status: _tokens(request, None, refusal=error, status=status))


def _tokens(
    request: Request,
    found: tuple[AccessToken, Account] | None,
    *,
    refusal: OdfError | None = None,
    status: int = 200,
) -> Response:
    node = node_of(request)
    values: dict[str, Any] = {
        "found": found[0] if found else None,
        "owner": found[1] if found else None,
        "state": state_of(found[0], node.ports.clock.now()) if found else None,
        "maker": node.people.accounts.by_id(found[0].created_by) if found else None,
        "refusal": refusal,
        "tab": "tokens",
    }
    return page(request, "admin/tokens.html", values, status=status)
