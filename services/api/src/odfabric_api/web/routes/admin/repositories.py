"""Repositories of the node: names for places elsewhere, for all accounts."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric_api.auth import Admin, Subject, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.pages import page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)

REPOSITORIES = "/-/admin/repositories"


@router.get(REPOSITORIES)
def get_repositories(request: Request, caller: Admin) -> Response:
    """All of the node. No network is asked."""
    return _screen(request, caller)


@router.post(REPOSITORIES)
async def post_repository(request: Request, caller: Admin) -> Response:
    """Make a repository known to all accounts."""
    form = await read_form(request, frozenset({"name", "url"}))

    def act() -> Response:
        name, url = form.get("name", "").strip(), form.get("url", "").strip()
        node_of(request).sharing.repositories.add(name, url, shared=True, by=caller)
        return see_other(REPOSITORIES, notice="added")

    return await submitted(
        request, act, lambda error, status: _screen(request, caller, typed=form, error=error, status=status)
    )


@router.post(f"{REPOSITORIES}/{{name}}/remove")
async def post_remove(request: Request, caller: Admin, name: str) -> Response:
    """Forget it; what was pulled from it or pushed to it stays."""
    await read_form(request, frozenset())

    def act() -> Response:
        node_of(request).sharing.repositories.remove(name, shared=True, by=caller)
        return see_other(REPOSITORIES, notice="removed")

    return await submitted(request, act, lambda error, status: _screen(request, caller, error=error, status=status))


def _screen(
    request: Request,
    caller: Subject,
    *,
    typed: dict[str, str] | None = None,
    error: OdfError | None = None,
    status: int = 200,
) -> Response:
    values = {
        "repositories": node_of(request).sharing.repositories.shared(by=caller),
        "typed": typed or {},
        "problems": places_of(error),
        "tab": "repositories",
    }
    return page(request, "admin/repositories.html", values, status=status)
