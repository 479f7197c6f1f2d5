"""The stylesheet and built scripts.

The same for everybody, and kept by browsers until their names change.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import NotFound
from odfabric_api.page_route import PageRoute
from odfabric_api.web.assets import Assets
from odfabric_api.web.rendering import stylesheet

router = APIRouter(route_class=PageRoute, include_in_schema=False)

_FOR_EVER = {"cache-control": "public, max-age=31536000, immutable"}


@router.get("/-/assets/{name}")
def get_asset(request: Request, name: str) -> Response:
    """A file by its hashed name. Raises NotFound."""
    style_name, style = stylesheet()
    if name == style_name:
        return Response(style, media_type="text/css", headers=_FOR_EVER)
    assets: Assets = request.app.state.assets
    found = assets.read(name)
    if found is None:
        raise NotFound("file", name)
    return Response(found[0], media_type=found[1], headers=_FOR_EVER)
