"""Variables and secrets of a dataset's source, for who may change the source."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import OdfError
from odfabric.model.commit import CatalogEntry
from odfabric_api.auth import Caller, Subject, WritableDataset, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.pages import dataset_path, page, see_other
from odfabric_api.web.problem_places import places_of
from odfabric_api.web.submitted import submitted

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/{account}/{dataset}/-/variables")
def get_variables(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """All of them; values of secrets are not shown."""
    return _screen(request, entry, caller)


@router.post("/{account}/{dataset}/-/variables")
async def post_variable(request: Request, entry: WritableDataset, caller: Caller) -> Response:
    """Set the variable `name`; with `secret` its `value` is not shown again."""
    form = await read_form(request, frozenset({"name", "value", "secret"}))

    def act() -> Response:
        name, value = form.get("name", "").strip(), form.get("value", "")
        node_of(request).variables.set(entry, name, value, secret="secret" in form, by=caller)
        return see_other(dataset_path(entry, "variables"), notice="changed")

    def again(error: OdfError, status: int) -> Response:
        return _screen(request, entry, caller, name=form.get("name", ""), error=error, status=status)

    return await submitted(request, act, again)


@router.post("/{account}/{dataset}/-/variables/{name}/remove")
async def remove_variable(request: Request, entry: WritableDataset, caller: Caller, name: str) -> Response:
    """Remove a variable or a secret."""
    await read_form(request, frozenset())

    def act() -> Response:
        node_of(request).variables.remove(entry, name, by=caller)
        return see_other(dataset_path(entry, "variables"), notice="removed")

    return await submitted(
        request, act, lambda error, status: _screen(request, entry, caller, error=error, status=status)
    )


def _screen(
    request: Request,
    entry: CatalogEntry,
    caller: Subject,
    *,
    name: str = "",
    error: OdfError | None = None,
    status: int = 200,
) -> Response:
    """A value that was refused is not shown again: it may be that of a secret."""
    found = node_of(request).variables.listed(entry, by=caller)
    values = {
        "variables": found,
        "name": name,
        "problems": places_of(error),
        "tab": "settings",
    }
    return page(request, "publish/variables.html", {**dataset_frame(request, entry, caller), **values}, status=status)
