"""Who may do what with a dataset: visibility and collaborators."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from odfabric.errors import AccessDenied, InvalidRequest, NotFound, OdfError, Place
from odfabric.model.commit import CatalogEntry
from odfabric.model.people.account import DatasetRole, Visibility
from odfabric.usecases.people.sharing import list_collaborators, set_role, set_visibility, visibility_of
from odfabric_api.auth import Caller, SharableDataset, Subject, node_of
from odfabric_api.bodies.forms import read_form
from odfabric_api.page_route import PageRoute
from odfabric_api.web.dataset_page import dataset_frame
from odfabric_api.web.pages import dataset_path, page, see_other
from odfabric_api.web.submitted import submitted, version_in

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/{account}/{dataset}/-/sharing")
def get_sharing(request: Request, entry: SharableDataset, caller: Caller) -> Response:
    """Visibility, collaborators, and what the roles mean."""
    return _sharing(request, entry, caller)


@router.post("/{account}/{dataset}/-/sharing/visibility")
async def post_visibility(request: Request, entry: SharableDataset, caller: Caller) -> Response:
    """Let everybody read it, or not any more."""
    form = await read_form(request, frozenset({"visibility"}))

    def act() -> Response:
        wanted = _visibility(form)
        set_visibility(entry, wanted, subject=caller, ports=node_of(request).people)
        return see_other(dataset_path(entry, "sharing"), notice=wanted.value)

    return await submitted(
        request, act, lambda error, status: _sharing(request, entry, caller, refusal=error, status=status)
    )


@router.post("/{account}/{dataset}/-/sharing/collaborators")
async def post_collaborator(request: Request, entry: SharableDataset, caller: Caller) -> Response:
    """Give a role, or with the role `none` take it.

    `seen` is the role that the form was made from.
    """
    form = await read_form(request, frozenset({"name", "role", "seen", "version"}))

    def act() -> Response:
        node, name = node_of(request), form.get("name", "").strip()
        set_role(entry, name, _role(form), version=version_in(form), subject=caller, ports=node.people)
        try:
            list_collaborators(entry, subject=caller, ports=node.people)
        except (AccessDenied, NotFound):
            # It was their own role that they gave away.
            return see_other("/")
        return see_other(dataset_path(entry, "sharing"), notice="role")

    return await submitted(
        request, act, lambda error, status: _sharing(request, entry, caller, typed=form, refusal=error, status=status)
    )


def _visibility(form: dict[str, str]) -> Visibility:
    text = form.get("visibility", "")
    if text not in {each.value for each in Visibility}:
        raise InvalidRequest("not a visibility", place=Place(field="visibility"), hint="private or public")
    return Visibility(text)


def _role(form: dict[str, str]) -> DatasetRole | None:
    text = form.get("role", "")
    if text == "none":
        return None
    if text not in {role.value for role in DatasetRole}:
        hint = ", ".join(role.value for role in DatasetRole)
        raise InvalidRequest("not a role on a dataset", place=Place(field="role"), hint=hint)
    return DatasetRole(text)


def _sharing(
    request: Request,
    entry: CatalogEntry,
    caller: Subject,
    *,
    typed: dict[str, str] | None = None,
    refusal: OdfError | None = None,
    status: int = 200,
) -> Response:
    people = node_of(request).people
    values: dict[str, Any] = {
        "collaborators": list_collaborators(entry, subject=caller, ports=people),
        "visibility": visibility_of(entry, ports=people).value,
        "roles": [role.value for role in DatasetRole],
        "is_open_node": node_of(request).settings.anonymous_read,
        "typed": {"name": "", "role": "reader", "seen": "", **(typed or {})},
        "refusal": refusal,
        "tab": "sharing",
    }
    return page(request, "sharing.html", {**dataset_frame(request, entry, caller), **values}, status=status)
