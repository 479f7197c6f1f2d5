"""The link by which whoever runs a node opens its console without a password."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from starlette.responses import RedirectResponse, Response

from odfabric.usecases.people.opening_link import use_opening_link
from odfabric_api.auth import node_of
from odfabric_api.page_route import PageRoute
from odfabric_api.routes.sign_in import with_session

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/-/open")
def get_open(request: Request, code: Annotated[str, Query(max_length=200)] = "") -> Response:
    """Signs the browser in and goes to the first page.

    Raises NotFound for a link that was used or has expired.
    """
    address = request.client.host if request.client else None
    device = request.headers.get("user-agent", "")
    _, issued = use_opening_link(code, device=device, address=address, ports=node_of(request).people)
    return with_session(request, RedirectResponse("/", status_code=303), issued)
